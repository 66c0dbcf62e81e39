"""What makes or checks the data that ship with ldm. No run imports it, and the wheel omits it."""
