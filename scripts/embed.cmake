# Writes files as C arrays, one for each ending: with NAME page they are page_html, page_css, page_js, each with its
# length in page_<ending>_n. Files of the same ending are joined in the order given.
set(text "/* Made by scripts/embed.cmake. */\n#include <stddef.h>\n")
foreach(file ${FILES})
  get_filename_component(ending ${file} LAST_EXT)
  string(SUBSTRING ${ending} 1 -1 ending)
  file(READ ${file} hex HEX)
  string(REGEX REPLACE "(..)" "0x\\1," bytes "${hex}")
  string(APPEND page_${ending} "${bytes}\n")
  list(APPEND endings ${ending})
endforeach()
list(REMOVE_DUPLICATES endings)
foreach(ending ${endings})
  string(APPEND text "extern const unsigned char ${NAME}_${ending}[];\nextern const size_t ${NAME}_${ending}_n;\n"
    "const unsigned char ${NAME}_${ending}[] = {\n${page_${ending}}};\n"
    "const size_t ${NAME}_${ending}_n = sizeof ${NAME}_${ending};\n")
endforeach()
file(WRITE ${OUT} "${text}")
