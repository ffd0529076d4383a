#compdef zmtpscope
# Completion for zsh: the program itself knows its commands, options and values.
eval "$(_ZMTPSCOPE_COMPLETE=zsh_source zmtpscope)"
_zmtpscope_completion "$@"
