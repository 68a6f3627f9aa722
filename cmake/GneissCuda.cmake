# gneiss::cuda, if nvcc is found: a target that links it may include <gneiss/cuda/…> and call the CUDA runtime; its .cu files
# are compiled as C++20. Projects with .cu files enable the language themselves.
set(GNEISS_CUDA AUTO CACHE STRING "Make gneiss::cuda: ON, OFF, or AUTO (if nvcc is found)")
set_property(CACHE GNEISS_CUDA PROPERTY STRINGS AUTO ON OFF)
set(found_cuda FALSE)
if(GNEISS_CUDA)
  find_package(CUDAToolkit 12 QUIET)
  if(CUDAToolkit_FOUND AND EXISTS "${CUDAToolkit_NVCC_EXECUTABLE}")
    set(found_cuda TRUE)
  elseif(NOT GNEISS_CUDA STREQUAL AUTO)
    message(FATAL_ERROR "GNEISS_CUDA is ON, but nvcc 12 or newer was not found (set CUDAToolkit_ROOT)")
  endif()
endif()
gneiss_component(cuda ${found_cuda} CUDA::cudart_static)
if(TARGET gneiss_cuda)
  # CMake 3.25 drops the C++20 of target_compile_features for CUDA.
  target_compile_options(gneiss_cuda INTERFACE $<$<COMPILE_LANGUAGE:CUDA>:-std=c++20>)
endif()
