"""Line formats chosen by users: `-T fields -e topic -e size`, `--format '{time} {topic} {size}'`."""

from zmtpscope.templates.lines import TemplateLines
from zmtpscope.templates.template import Separators, Template, of_fields, parse_separators, parse_template

__all__ = ["Separators", "Template", "TemplateLines", "of_fields", "parse_separators", "parse_template"]
