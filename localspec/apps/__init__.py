"""The programs: commands, the server, the chat, measurements, trainings."""
