# Completion for fish: the program itself knows its commands, options and values.
_ZMTPSCOPE_COMPLETE=fish_source zmtpscope | source
