"""Work on what strangers wrote, in processes of limited time and memory."""
