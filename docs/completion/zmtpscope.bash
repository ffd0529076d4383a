# Completion for bash: the program itself knows its commands, options and values.
eval "$(_ZMTPSCOPE_COMPLETE=bash_source zmtpscope)"
