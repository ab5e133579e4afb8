# cuda.cmake -- libplimsoll_cuda.so: built where nvcc, cuBLASLt and cuDNN are found.
#
# The libraries are looked for in PLIMSOLL_CUDA_WHEELS (the `nvidia` folder of a Python environment,
# as scripts/setup_cuda.sh makes one), then in CUDA_HOME, then where the system keeps them.
set(PLIMSOLL_CUDA "AUTO" CACHE STRING "build the CUDA plugin: ON, OFF, or AUTO if all of it is found")
set(PLIMSOLL_CUDA_ARCHS "AUTO" CACHE STRING "compute capabilities of the CUDA kernels, e.g. 80;90a; AUTO: of the GPU here")
option(PLIMSOLL_RELEASE "build for every supported GPU" OFF)
option(PLIMSOLL_CUDA_FAST_COMPILE "compile kernels quickly, to slow code: where they are only to be built" OFF)
set(PLIMSOLL_CUDA_WHEELS "" CACHE PATH "folder `nvidia` of a Python environment with the CUDA wheels")
if(NOT PLIMSOLL_CUDA)
  message(STATUS "CUDA plugin: switched off")
  return()
endif()
if(NOT PLIMSOLL_CUDA_WHEELS)
  file(GLOB found ${CMAKE_SOURCE_DIR}/.venv-cuda/lib/python*/site-packages/nvidia)
  set(PLIMSOLL_CUDA_WHEELS "${found}")
endif()

set(missing "")
find_program(NVCC nvcc HINTS $ENV{CUDA_HOME}/bin /usr/local/cuda/bin)
set(places ${PLIMSOLL_CUDA_WHEELS}/cudnn ${PLIMSOLL_CUDA_WHEELS}/cu13 ${PLIMSOLL_CUDA_WHEELS}/cublas
  $ENV{CUDA_HOME} /usr/local/cuda)
find_path(CUDNN_INCLUDE cudnn.h HINTS ${places} PATH_SUFFIXES include)
find_path(CUBLASLT_INCLUDE cublasLt.h HINTS ${places} PATH_SUFFIXES include)
find_library(CUDNN_LIBRARY NAMES libcudnn.so.9 cudnn HINTS ${places} PATH_SUFFIXES lib lib64)
find_library(CUBLASLT_LIBRARY NAMES libcublasLt.so.13 cublasLt HINTS ${places} PATH_SUFFIXES lib lib64)
foreach(part NVCC CUDNN_INCLUDE CUBLASLT_INCLUDE CUDNN_LIBRARY CUBLASLT_LIBRARY)
  if(NOT ${part})
    list(APPEND missing ${part})
  endif()
endforeach()
if(missing)
  if(NOT PLIMSOLL_CUDA STREQUAL "AUTO")
    message(FATAL_ERROR "CUDA plugin: not found: ${missing}; scripts/setup_cuda.sh fetches the libraries")
  endif()
  message(STATUS "CUDA plugin: not built (not found: ${missing}); `make cuda` fetches the libraries")
  return()
endif()

set(CMAKE_CUDA_COMPILER ${NVCC})
include(${CMAKE_CURRENT_LIST_DIR}/cuda_archs.cmake)
set(CMAKE_CUDA_ARCHITECTURES ${PLIMSOLL_CUDA_ARCHS})
enable_language(CUDA)
file(GLOB_RECURSE cuda_sources CONFIGURE_DEPENDS src/*/plugin_cuda*.c src/*_cuda.cu)
add_library(plimsoll_cuda MODULE ${cuda_sources})
add_dependencies(plimsoll_cuda op_lists)
target_include_directories(plimsoll_cuda PRIVATE src ${generated} ${CUDNN_INCLUDE} ${CUBLASLT_INCLUDE}
  ${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES})
target_compile_options(plimsoll_cuda PRIVATE
  $<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr -Xcompiler=-ffile-prefix-map=${CMAKE_SOURCE_DIR}/=>
  $<$<COMPILE_LANGUAGE:C>:-Wall -Wextra -Wno-missing-field-initializers -ffile-prefix-map=${CMAKE_SOURCE_DIR}/=>)
if(PLIMSOLL_CUDA_FAST_COMPILE AND CMAKE_CUDA_COMPILER_VERSION VERSION_GREATER_EQUAL 13.0)
  target_compile_options(plimsoll_cuda PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:SHELL:-Ofc max>")
endif()
target_compile_definitions(plimsoll_cuda PRIVATE _GNU_SOURCE)
if("90a" IN_LIST PLIMSOLL_CUDA_ARCHS)
  target_compile_definitions(plimsoll_cuda PRIVATE PLIMSOLL_SM90A)   # the kernels for Hopper are included
endif()
set_target_properties(plimsoll_cuda PROPERTIES CUDA_RUNTIME_LIBRARY Static CUDA_STANDARD 20)
# cuDNN opens nvrtc by name: loaded with the plugin, it is found wherever it lies.
find_library(NVRTC_LIBRARY NAMES libnvrtc.so.13 nvrtc HINTS ${places} PATH_SUFFIXES lib lib64)
target_link_libraries(plimsoll_cuda PRIVATE ${CUDNN_LIBRARY} ${CUBLASLT_LIBRARY})
if(NVRTC_LIBRARY)
  target_link_libraries(plimsoll_cuda PRIVATE -Wl,--no-as-needed ${NVRTC_LIBRARY})
endif()
# NCCL is opened by name where several ranks run, so only its folder counts; without it they send through host memory.
find_library(NCCL_LIBRARY NAMES libnccl.so.2 nccl HINTS ${PLIMSOLL_CUDA_WHEELS}/nccl $ENV{CUDA_HOME} /usr/local/cuda
  PATH_SUFFIXES lib lib64)
# In a build tree the libraries are found where they were at build time; installed ones by the loader. The path is written
# out and removed by a command of its own, because CMake would end one that it is to remove with ':' (the current folder).
set(cuda_rpath "")
foreach(library ${CUDNN_LIBRARY} ${CUBLASLT_LIBRARY} ${NVRTC_LIBRARY} ${NCCL_LIBRARY})
  if(NOT library)
    continue()
  endif()
  get_filename_component(folder ${library} DIRECTORY)
  list(APPEND cuda_rpath ${folder})
endforeach()
list(REMOVE_DUPLICATES cuda_rpath)
set_target_properties(plimsoll_cuda PROPERTIES INSTALL_RPATH "${cuda_rpath}")
message(STATUS "CUDA plugin: ${NVCC}, ${CUDNN_LIBRARY}, ${CUBLASLT_LIBRARY}")
