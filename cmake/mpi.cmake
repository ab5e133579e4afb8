# mpi.cmake -- libplimsoll_mpi_openmpi.so and libplimsoll_mpi_mpich.so: transfers between the ranks of a run. One source, built
# against each mpi.h that is found, because the two differ in their binary interface. The program itself is free of MPI; the
# plugins are for the libraries of the machine they are built on, so neither is part of a release or of the Python package.
set(PLIMSOLL_MPI "AUTO" CACHE STRING "plugins for Open MPI and MPICH: OFF, ON, or AUTO: ON except for releases")
if(NOT PLIMSOLL_MPI OR SKBUILD OR (PLIMSOLL_MPI STREQUAL "AUTO" AND PLIMSOLL_RELEASE))
  message(STATUS "MPI plugins: switched off")
  return()
endif()
# Each has its own folders, named by its own compiler wrapper if there is one: mpi.h of the other must never be taken.
function(add_mpi_plugin name library wrapper include_words)
  find_program(PLIMSOLL_MPICC_${name} NAMES ${wrapper})
  set(hints "")
  if(PLIMSOLL_MPICC_${name})
    execute_process(COMMAND ${PLIMSOLL_MPICC_${name}} ${ARGN} OUTPUT_VARIABLE words ERROR_QUIET)
    string(REGEX MATCHALL "-I[^ \n]+" hints "${words}")
    string(REGEX REPLACE "-I" "" hints "${hints}")
    string(REGEX MATCHALL "-L[^ \n]+" library_hints "${words}")
    string(REGEX REPLACE "-L" "" library_hints "${library_hints}")
  endif()
  set(arch "${CMAKE_LIBRARY_ARCHITECTURE}")
  find_path(PLIMSOLL_MPI_INCLUDE_${name} mpi.h HINTS ${hints}
    PATHS /usr/lib/${arch}/${name}/include /usr/include/${arch}/${name} /usr/include/${name}-x86_64 /usr/include/${name}-${arch}
    NO_DEFAULT_PATH)
  find_library(PLIMSOLL_MPI_LIBRARY_${name} NAMES ${library} HINTS ${library_hints}
    PATHS /usr/lib/${arch}/${name}/lib /usr/lib/${arch} /usr/lib64/${name}/lib NO_DEFAULT_PATH)
  if(NOT PLIMSOLL_MPI_INCLUDE_${name} OR NOT PLIMSOLL_MPI_LIBRARY_${name})
    message(STATUS "MPI plugin for ${name}: not built (not found); scripts/setup_mpi.sh installs it")
    return()
  endif()
  file(STRINGS ${PLIMSOLL_MPI_INCLUDE_${name}}/mpi.h is_it REGEX "${include_words}")
  if(NOT is_it)
    message(STATUS "MPI plugin for ${name}: not built (${PLIMSOLL_MPI_INCLUDE_${name}}/mpi.h belongs to another library)")
    return()
  endif()
  add_library(plimsoll_mpi_${name} MODULE src/comm/plugin_mpi.c)
  target_compile_options(plimsoll_mpi_${name} PRIVATE -Wshadow -Wconversion $<$<C_COMPILER_ID:GNU>:-Wno-stringop-overflow>)  # MPICH: MPI_STATUSES_IGNORE is 1
  target_include_directories(plimsoll_mpi_${name} SYSTEM PRIVATE ${PLIMSOLL_MPI_INCLUDE_${name}})
  target_link_libraries(plimsoll_mpi_${name} PRIVATE flags ${PLIMSOLL_MPI_LIBRARY_${name}})
  # A test aid, not part of the program: preloaded, it slows the link (tests/comm/overlap.py).
  add_library(slow_wire_${name} MODULE tests/launch/slow_wire.c)
  target_include_directories(slow_wire_${name} SYSTEM PRIVATE ${PLIMSOLL_MPI_INCLUDE_${name}})
  target_link_libraries(slow_wire_${name} PRIVATE ${PLIMSOLL_MPI_LIBRARY_${name}})
  message(STATUS "MPI plugin for ${name}: ${PLIMSOLL_MPI_LIBRARY_${name}}")
endfunction()
add_mpi_plugin(openmpi mpi "mpicc.openmpi;mpicc" "define OMPI_MAJOR_VERSION|define OPEN_MPI" --showme)
add_mpi_plugin(mpich mpich "mpicc.mpich;mpicc" "define MPICH_VERSION" -show)
