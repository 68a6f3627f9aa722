# Configures, builds and runs the project consumer/ in SCRATCH, with gneiss found by WAY:
#   find_package      in a fresh prefix that BUILD installs to
#   add_subdirectory  in SOURCE
#   fetch_content     in an archive of SOURCE
#   pkg_config        in a fresh prefix; without CMake: the compiler makes a program of core.cpp
function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

# pkg_config(VARIABLE ARGUMENTS…): what pkg-config prints, of modules in the prefix.
find_program(pkg_config_program NAMES pkg-config pkgconf)
if(WAY STREQUAL pkg_config AND NOT pkg_config_program)
  message("skipped: pkg-config was not found")
  return()
endif()
function(pkg_config variable)
  file(GLOB_RECURSE module ${SCRATCH}/moved/gneiss.pc)
  cmake_path(GET module PARENT_PATH folder)
  execute_process(COMMAND ${CMAKE_COMMAND} -E env PKG_CONFIG_PATH=${folder} ${pkg_config_program} --print-errors ${ARGN}
                  OUTPUT_VARIABLE output OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  separate_arguments(output UNIX_COMMAND "${output}")
  set(${variable} ${output} PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE ${SCRATCH})
set(arguments -DWAY=${WAY} -DCOMPONENTS=${COMPONENTS} -DREQUEST=${REQUEST} -DCMAKE_CXX_COMPILER=${COMPILER} -DCMAKE_BUILD_TYPE=Debug)
if(LAUNCHER)
  list(APPEND arguments -DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER})
endif()
if(WAY STREQUAL find_package OR WAY STREQUAL pkg_config)
  run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${SCRATCH}/prefix --component gneiss_headers)
  if(COMPONENTS MATCHES "compiled")
    run(${CMAKE_COMMAND} --build ${BUILD} --target gneiss_compiled)
    run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${SCRATCH}/prefix --component gneiss_compiled)
  endif()
  # Moved, so that a path of the build tree in the package is detected.
  file(RENAME ${SCRATCH}/prefix ${SCRATCH}/moved)
  list(APPEND arguments -DCMAKE_PREFIX_PATH=${SCRATCH}/moved)
elseif(WAY STREQUAL fetch_content)
  file(MAKE_DIRECTORY ${SCRATCH})
  execute_process(COMMAND ${CMAKE_COMMAND} -E tar czf ${SCRATCH}/gneiss.tar.gz CMakeLists.txt cmake include # suffices for users
                  WORKING_DIRECTORY ${SOURCE} COMMAND_ERROR_IS_FATAL ANY)
  list(APPEND arguments -DGNEISS_ARCHIVE=file://${SCRATCH}/gneiss.tar.gz)
else()
  list(APPEND arguments -DGNEISS_SOURCE=${SOURCE})
  if(COMPONENTS MATCHES "compiled")
    list(APPEND arguments -DGNEISS_COMPILED=ON)
  endif()
endif()

if(WAY STREQUAL pkg_config)
  pkg_config(version --modversion gneiss)
  pkg_config(flags --cflags --libs gneiss)
  run(${LAUNCHER} ${COMPILER} -std=c++20 -DPACKAGE_VERSION="${version}" -c ${CMAKE_CURRENT_LIST_DIR}/consumer/core.cpp
      -o ${SCRATCH}/core.o ${flags})
  run(${COMPILER} ${SCRATCH}/core.o -o ${SCRATCH}/core ${flags})
  run(${SCRATCH}/core)
  return()
endif()
if(pkg_config_program AND COMPONENTS MATCHES "compiled" AND WAY STREQUAL find_package)
  pkg_config(flags --cflags --libs gneiss-compiled) # the modules that it requires exist
endif()
run(${CMAKE_COMMAND} -S ${CMAKE_CURRENT_LIST_DIR}/consumer -B ${SCRATCH}/build -G ${GENERATOR} ${arguments})
run(${CMAKE_COMMAND} --build ${SCRATCH}/build --parallel)
run(${CMAKE_CTEST_COMMAND} --test-dir ${SCRATCH}/build --output-on-failure --no-tests=error)
