"""What runs inside the containers. Standard library only, and as little of it as possible: start-up is on every path."""
