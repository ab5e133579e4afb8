# libplimsoll, for other programs (docs/LIBRARY.md): plan, layout and its own copy of base, so that it needs no kernels. It
# exports the names of plimsoll.h only.
file(GLOB library_sources CONFIGURE_DEPENDS src/lib/*.c src/base/*.c)
add_library(plimsoll_library SHARED ${library_sources})
target_compile_options(plimsoll_library PRIVATE ${strict} ${lowest_march})
target_link_libraries(plimsoll_library PRIVATE $<TARGET_FILE:room_plan> $<TARGET_FILE:room_layout>
  $<TARGET_FILE:room_torchmem> flags)
target_link_options(plimsoll_library PRIVATE -Wl,--exclude-libs,ALL)
add_dependencies(plimsoll_library room_plan room_layout room_torchmem)
if(NOT PLIMSOLL_SANITIZE)
  target_link_options(plimsoll_library PRIVATE -Wl,-z,defs)
endif()
set_target_properties(plimsoll_library PROPERTIES OUTPUT_NAME plimsoll VERSION ${PROJECT_VERSION}
  SOVERSION ${PROJECT_VERSION_MAJOR} C_VISIBILITY_PRESET hidden LINK_DEPENDS
  "$<TARGET_FILE:room_plan>;$<TARGET_FILE:room_layout>;$<TARGET_FILE:room_torchmem>")
configure_file(cmake/plimsoll.pc.in plimsoll.pc @ONLY)
