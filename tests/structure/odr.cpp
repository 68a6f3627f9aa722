#include <all_headers.hpp>

// Includes everything; strong_symbols.sh reads its object.
