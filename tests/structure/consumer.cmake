# Configures, builds and runs the project consumer/ in SCRATCH, with gneiss found by WAY: find_package, from a fresh
# prefix that BUILD installs to, or add_subdirectory, from SOURCE.
function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

file(REMOVE_RECURSE ${SCRATCH})
set(arguments -DWAY=${WAY} -DCOMPONENTS=${COMPONENTS} -DCMAKE_CXX_COMPILER=${COMPILER} -DCMAKE_BUILD_TYPE=Debug)
if(LAUNCHER)
  list(APPEND arguments -DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER})
endif()
if(WAY STREQUAL find_package)
  run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${SCRATCH}/prefix --component gneiss_headers)
  # Moved, so that a path of the build that went into the package is found out.
  file(RENAME ${SCRATCH}/prefix ${SCRATCH}/moved)
  list(APPEND arguments -DCMAKE_PREFIX_PATH=${SCRATCH}/moved)
else()
  list(APPEND arguments -DGNEISS_SOURCE=${SOURCE})
endif()
run(${CMAKE_COMMAND} -S ${CMAKE_CURRENT_LIST_DIR}/consumer -B ${SCRATCH}/build -G ${GENERATOR} ${arguments})
run(${CMAKE_COMMAND} --build ${SCRATCH}/build --parallel)
run(${CMAKE_CTEST_COMMAND} --test-dir ${SCRATCH}/build --output-on-failure --no-tests=error)
