from arnold.demonstration import demo_files as demo_files
from arnold.demonstration import demo_instance as demo_instance

DISTRIBUTION: str
