"""What runs inside the containers. Standard library only, and little of it: start-up is on every path."""
