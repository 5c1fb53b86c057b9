"""How nbgrader makes and marks the lessons' sheets. ``make lessons`` copies this file into the course folder."""

c = get_config()  # noqa: F821  (nbgrader reads this file and puts the name there)

c.CourseDirectory.course_id = "gsm8k_nb"
# Cells that load the model take longer than nbgrader's 30 seconds on their first run.
c.ExecutePreprocessor.timeout = 300
