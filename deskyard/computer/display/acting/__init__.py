"""What an agent does on the display: batches of actions, by hands that are let go when a person takes the drive."""
