# cmake -DCOMPILER=… -DSOURCE=… -DINCLUDES=… -DDEFINITIONS=… -P check.cmake
file(STRINGS ${SOURCE} sentence LIMIT_COUNT 1 ENCODING UTF-8)
if(NOT sentence MATCHES "^// error: (.+)$")
  message(FATAL_ERROR "${SOURCE}: its first line is not \"// error: SENTENCE\"")
endif()
set(sentence "${CMAKE_MATCH_1}")
list(REMOVE_DUPLICATES INCLUDES)
list(FILTER INCLUDES EXCLUDE REGEX "^/usr/include$") # the compiler's own
list(TRANSFORM INCLUDES PREPEND -isystem)
list(TRANSFORM DEFINITIONS PREPEND -D)
set(ENV{LC_ALL} C)
execute_process(COMMAND ${COMPILER} -std=c++20 -fsyntax-only ${DEFINITIONS} ${INCLUDES} ${SOURCE}
                RESULT_VARIABLE result OUTPUT_VARIABLE said ERROR_VARIABLE said)
string(FIND "${said}" "${sentence}" found)
if(result EQUAL 0)
  message(FATAL_ERROR "${SOURCE} compiles")
elseif(found EQUAL -1)
  message(FATAL_ERROR "the compiler does not say \"${sentence}\" but:\n${said}")
endif()
