# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=True
"""Plain JSON: octets for which the output of orjson is known without making Python values.

Plain are objects and arrays in printable ASCII without backslashes, whose numbers orjson writes unchanged.
"""

from libc.stdint cimport uint8_t
from libc.stdio cimport snprintf
from libc.stdlib cimport strtod
from libc.string cimport memcmp, memcpy, strcmp

cdef enum:
    LONGEST_PLAIN = 4096  # octets, all of which a summary reads (`HEAD` of json.py)
    MAX_LEVELS = 16  # of objects and arrays
    MAX_KEYS = 64  # of the open objects
    MAX_INTEGER = 18  # digits that fit in 64 bits
    MAX_REAL = 15  # digits up to which every decimal is a distinct double
    MAX_SHORTEST = 17  # digits of the shortest decimal of any double
    NUMBER = 32  # octets of a number with more digits than these
    MAX_ZEROS = 2  # after the point: no exponent is needed

cdef struct Plain:
    const uint8_t *octets
    Py_ssize_t size
    Py_ssize_t at
    char *to  # output buffer; NULL: write nothing
    Py_ssize_t used


cdef inline void put_plain(Plain *plain, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
    """Write the octets `begin..end`."""
    if plain.to != NULL:
        memcpy(plain.to + plain.used, plain.octets + begin, end - begin)
    plain.used += end - begin


cdef inline bint pass_octet(Plain *plain, uint8_t octet) noexcept nogil:
    """Consume `octet` after blanks, if it is next."""
    while plain.at < plain.size and plain.octets[plain.at] == c" ":
        plain.at += 1
    if plain.at == plain.size or plain.octets[plain.at] != octet:
        return False
    put_plain(plain, plain.at, plain.at + 1)
    plain.at += 1
    return True


cdef inline bint pass_string(Plain *plain) noexcept nogil:
    """Consume a string after its opening quotation mark, with the closing one."""
    cdef Py_ssize_t begin = plain.at
    cdef uint8_t octet
    while plain.at < plain.size:
        octet = plain.octets[plain.at]
        plain.at += 1
        if octet == c'"':
            put_plain(plain, begin, plain.at)
            return True
        if octet == c"\\" or octet < 0x20 or octet > 0x7E:
            return False
    return False


cdef inline Py_ssize_t pass_digits(Plain *plain) noexcept nogil:
    cdef Py_ssize_t begin = plain.at
    while plain.at < plain.size and c"0" <= plain.octets[plain.at] <= c"9":
        plain.at += 1
    return plain.at - begin


cdef inline bint is_shortest(const uint8_t *text, Py_ssize_t size, int digits) noexcept nogil:
    """Whether a decimal of 16 or 17 significant digits, without an exponent, is the shortest one of its double, as
    orjson writes it. The double is no power of two, which has fewer digits or no fraction."""
    cdef char given[NUMBER]
    cdef char made[NUMBER]
    cdef double value
    if digits > MAX_SHORTEST or size >= NUMBER:
        return False
    memcpy(given, text, size)
    given[size] = 0
    value = strtod(given, NULL)
    snprintf(made, NUMBER, "%.*g", digits, value)  # has a comma in some locales, and then equals nothing
    if strcmp(made, given):
        return False
    snprintf(made, NUMBER, "%.*g", digits - 1, value)
    return strtod(made, NULL) != value


cdef inline bint pass_number(Plain *plain) noexcept nogil:
    cdef Py_ssize_t begin = plain.at, first, point, digits, decimals, zeros = 0
    cdef bint is_negative = plain.octets[plain.at] == c"-", is_zero
    if is_negative:
        plain.at += 1
    first = plain.at
    digits = pass_digits(plain)
    if not digits or (digits > 1 and plain.octets[first] == c"0"):
        return False
    is_zero = plain.octets[first] == c"0"
    if plain.at == plain.size or plain.octets[plain.at] != c".":
        if digits > MAX_INTEGER or (is_negative and is_zero):
            return False
        put_plain(plain, begin, plain.at)
    else:
        point = plain.at
        plain.at += 1
        decimals = pass_digits(plain)
        if not decimals:
            return False
        if is_zero:
            while zeros < decimals and plain.octets[point + 1 + zeros] == c"0":
                zeros += 1
            if (zeros == decimals and is_negative) or MAX_ZEROS < zeros < decimals:
                return False
            zeros += 1  # the one before the point
        if digits + decimals > MAX_REAL:
            if not is_shortest(plain.octets + begin, plain.at - begin, <int>(digits + decimals - zeros)):
                return False
        while decimals > 1 and plain.octets[point + decimals] == c"0":
            decimals -= 1
        put_plain(plain, begin, point + 1 + decimals)
    return plain.at == plain.size or plain.octets[plain.at] not in (c".", c"e", c"E")


cdef inline bint pass_word(Plain *plain, const char *word, Py_ssize_t size) noexcept nogil:
    if plain.size - plain.at < size or memcmp(plain.octets + plain.at, word, size):
        return False
    put_plain(plain, plain.at, plain.at + size)
    plain.at += size
    return True


cdef inline bint pass_leaf(Plain *plain) noexcept nogil:
    """Consume a value without blanks before it, neither object nor array."""
    cdef uint8_t octet = plain.octets[plain.at]
    if octet == c'"':
        plain.at += 1
        put_plain(plain, plain.at - 1, plain.at)
        return pass_string(plain)
    if octet == c"t":
        return pass_word(plain, "true", 4)
    if octet == c"f":
        return pass_word(plain, "false", 5)
    if octet == c"n":
        return pass_word(plain, "null", 4)
    return pass_number(plain)


cdef struct Keys:
    Py_ssize_t starts[MAX_KEYS]
    Py_ssize_t sizes[MAX_KEYS]
    int count


cdef inline bint pass_key(Plain *plain, Keys *keys, int first) noexcept nogil:
    """Consume a key and its colon. Fails if it equals a key of its object, `keys` from `first` on."""
    cdef Py_ssize_t begin, size
    cdef int other
    if not pass_octet(plain, c'"') or keys.count == MAX_KEYS:
        return False
    begin = plain.at
    if not pass_string(plain):
        return False
    size = plain.at - begin
    for other in range(first, keys.count):
        if keys.sizes[other] == size and not memcmp(plain.octets + keys.starts[other], plain.octets + begin, size):
            return False
    keys.starts[keys.count], keys.sizes[keys.count] = begin, size
    keys.count += 1
    return pass_octet(plain, c":")


cdef inline Py_ssize_t plain_json(const uint8_t *octets, Py_ssize_t size, char *to) noexcept nogil:
    """Write to `to`, unless NULL, the JSON that orjson makes of plain octets.

    Returns the octets written, at most `size`; negative if the octets are not plain.
    """
    cdef Plain plain
    cdef Keys keys
    cdef bint are_objects[MAX_LEVELS]
    cdef int first_keys[MAX_LEVELS]
    cdef int level = 0
    cdef bint has_more
    if not 2 <= size <= LONGEST_PLAIN or octets[0] == c" ":
        return -1
    plain.octets, plain.size, plain.at, plain.to, plain.used = octets, size, 0, to, 0
    keys.count = 0
    while True:
        if pass_octet(&plain, c"{") or pass_octet(&plain, c"["):
            if level == MAX_LEVELS:
                return -1
            are_objects[level], first_keys[level] = octets[plain.at - 1] == c"{", keys.count
            level += 1
            has_more = not pass_octet(&plain, c"}" if are_objects[level - 1] else c"]")
        elif level and plain.at < size and pass_leaf(&plain):
            has_more = pass_octet(&plain, c",")
            if not has_more and not pass_octet(&plain, c"}" if are_objects[level - 1] else c"]"):
                return -1
        else:
            return -1
        # after an opening bracket or a comma there is more, after a closing bracket perhaps
        while not has_more:
            level -= 1
            keys.count = first_keys[level]
            if not level:
                return plain.used if plain.at == size else -1
            has_more = pass_octet(&plain, c",")
            if not has_more and not pass_octet(&plain, c"}" if are_objects[level - 1] else c"]"):
                return -1
        if are_objects[level - 1] and not pass_key(&plain, &keys, first_keys[level - 1]):
            return -1


cdef inline bint is_empty_object(const char *plain, Py_ssize_t size) noexcept nogil:
    return size == 2 and plain[0] == c"{"
