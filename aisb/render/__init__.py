"""From values to text: pure, same values, same bytes."""
