# SPDX-License-Identifier: BSD-3-Clause
# What `cmake --install` puts in place: the library, its headers, wireup.pc and a CMake package.
include(CMakePackageConfigHelpers)

set(WIREUP_PACKAGE_DIR "${CMAKE_INSTALL_LIBDIR}/cmake/wireup")

# Where a library that ours needs is outside the linker's usual folders, as PMIx is on Debian, the
# installed library finds it by its run path.
set_target_properties(wireup PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)

install(TARGETS wireup EXPORT wireupTargets
  LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/wireup"
  DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
  FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp")
file(GLOB WIREUP_PAGES CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/docs/man/wireup_*.3")
install(FILES ${WIREUP_PAGES} DESTINATION "${CMAKE_INSTALL_MANDIR}/man3")
install(EXPORT wireupTargets NAMESPACE wireup:: DESTINATION "${WIREUP_PACKAGE_DIR}")

configure_package_config_file("${CMAKE_CURRENT_LIST_DIR}/wireupConfig.cmake.in"
  "${CMAKE_CURRENT_BINARY_DIR}/wireupConfig.cmake"
  INSTALL_DESTINATION "${WIREUP_PACKAGE_DIR}")
# Before 1.0 each minor version may change the interface.
write_basic_package_version_file("${CMAKE_CURRENT_BINARY_DIR}/wireupConfigVersion.cmake"
  COMPATIBILITY SameMinorVersion)
install(FILES
  "${CMAKE_CURRENT_BINARY_DIR}/wireupConfig.cmake"
  "${CMAKE_CURRENT_BINARY_DIR}/wireupConfigVersion.cmake"
  DESTINATION "${WIREUP_PACKAGE_DIR}")

# Paths in wireup.pc are relative to the file where they can be, so that the tree can be moved.
foreach(kind LIB INCLUDE)
  if(IS_ABSOLUTE "${CMAKE_INSTALL_${kind}DIR}")
    set(WIREUP_PC_${kind}DIR "${CMAKE_INSTALL_${kind}DIR}")
  else()
    set(WIREUP_PC_${kind}DIR "\${prefix}/${CMAKE_INSTALL_${kind}DIR}")
  endif()
endforeach()
if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}")
  set(WIREUP_PC_PREFIX "${CMAKE_INSTALL_PREFIX}")
else()
  file(RELATIVE_PATH up "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
  string(REGEX REPLACE "/$" "" up "${up}")
  set(WIREUP_PC_PREFIX "\${pcfiledir}/${up}")
endif()
configure_file("${CMAKE_CURRENT_LIST_DIR}/wireup.pc.in" "${CMAKE_CURRENT_BINARY_DIR}/wireup.pc" @ONLY)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/wireup.pc"
  DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
