"""Line formats chosen by users: `-T fields -e topic -e size`, `--format '{time} {topic} {size}'`."""

from zmtpscope.templates.lines import TemplateLines
from zmtpscope.templates.separators import Separators, parse_separators
from zmtpscope.templates.template import Template, of_fields, parse_template

__all__ = ["Separators", "Template", "TemplateLines", "of_fields", "parse_separators", "parse_template"]
