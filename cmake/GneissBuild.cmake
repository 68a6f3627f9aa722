# Compile settings of gneiss's own tests, benchmarks and programs. Users of the library do not get them.
if(NOT CMAKE_RUNTIME_OUTPUT_DIRECTORY)
  set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
endif()
set(CMAKE_CXX_EXTENSIONS OFF)

if(GNEISS_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  find_program(GNEISS_CCACHE_PROGRAM ccache)
  mark_as_advanced(GNEISS_CCACHE_PROGRAM)
  if(GNEISS_CCACHE_PROGRAM)
    set(CMAKE_CXX_COMPILER_LAUNCHER ${GNEISS_CCACHE_PROGRAM})
  endif()
endif()

# The tests on a GPU and the programs have .cu files.
if(TARGET gneiss_cuda)
  if(NOT CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 80 90) # before the language is enabled; "native" needs a GPU
  endif()
  if(NOT CMAKE_CUDA_COMPILER)
    set(CMAKE_CUDA_COMPILER ${CUDAToolkit_NVCC_EXECUTABLE})
  endif()
  if(GNEISS_CCACHE_PROGRAM AND NOT CMAKE_CUDA_COMPILER_LAUNCHER)
    set(CMAKE_CUDA_COMPILER_LAUNCHER ${GNEISS_CCACHE_PROGRAM})
  endif()
  enable_language(CUDA)
endif()

add_library(gneiss_warnings INTERFACE)
target_compile_options(gneiss_warnings INTERFACE -Wall -Wextra -Wconversion $<$<BOOL:${GNEISS_NATIVE}>:-march=native>)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  target_compile_options(gneiss_warnings INTERFACE -Wno-restrict) # GCC 12 suspects "text" + std::string (PR 105651)
elseif(CMAKE_CXX_COMPILER_ID STREQUAL Clang)
  # libstdc++ 12 calls its own deprecated get_temporary_buffer in std::stable_sort. GCC reports deprecated calls of our own.
  target_compile_options(gneiss_warnings INTERFACE -Wno-deprecated-declarations)
  # The sanitized presets pass an option of g++.
  target_compile_options(gneiss_warnings INTERFACE -Wno-unused-command-line-argument)
endif()
if(GNEISS_WERROR)
  target_compile_options(gneiss_warnings INTERFACE -Werror)
  # GCC's flow analysis is heuristic and differs in every release; GCC 12 is wrong about std::optional and std::string.
  # Its warnings are shown, but do not stop the build.
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    target_compile_options(gneiss_warnings INTERFACE
      -Wno-error=array-bounds -Wno-error=free-nonheap-object -Wno-error=maybe-uninitialized -Wno-error=nonnull
      -Wno-error=stringop-overflow -Wno-error=stringop-overread)
  endif()
endif()

# All headers that this machine can compile, except CUDA, which programs link by name.
add_library(gneiss_all_headers INTERFACE)
target_link_libraries(gneiss_all_headers INTERFACE gneiss gneiss_warnings)
foreach(component ${GNEISS_COMPONENTS})
  if(NOT component STREQUAL cuda)
    target_link_libraries(gneiss_all_headers INTERFACE gneiss_${component})
  endif()
endforeach()
# The same with gneiss::compiled, which saves most units more than half of their time: for programs, tests and benchmarks.
add_library(gneiss_all INTERFACE)
target_link_libraries(gneiss_all INTERFACE gneiss_all_headers)
if(TARGET gneiss_compiled)
  target_link_libraries(gneiss_all INTERFACE gneiss_compiled)
endif()

# Thrust on host threads: the toolkit's headers with a host compiler.
if(TARGET gneiss_cuda)
  add_library(gneiss_thrust INTERFACE)
  foreach(folder ${CUDAToolkit_INCLUDE_DIRS})
    if(EXISTS ${folder}/cccl) # CUDA 13
      target_include_directories(gneiss_thrust SYSTEM INTERFACE ${folder}/cccl)
    endif()
  endforeach()
  target_include_directories(gneiss_thrust SYSTEM INTERFACE ${CUDAToolkit_INCLUDE_DIRS})
  target_compile_definitions(gneiss_thrust INTERFACE THRUST_DEVICE_SYSTEM=THRUST_DEVICE_SYSTEM_TBB)
endif()
