# SPDX-License-Identifier: BSD-3-Clause
# One target per folder. A module names the modules it uses; what it may name is fixed here,
# so an arrow that points up fails at configure time (the include scan checks the sources).

# The arrows of docs/architecture.md: module -> modules it may use.
set(WIREUP_ARROWS_base "")
set(WIREUP_ARROWS_settings "base")
set(WIREUP_ARROWS_mad "base")
set(WIREUP_ARROWS_verbs "base;mad")
set(WIREUP_ARROWS_umad "base;mad")
set(WIREUP_ARROWS_rdmacm "base;mad")
set(WIREUP_ARROWS_rdmacm_absent "base;mad")
set(WIREUP_ARROWS_cm_engine "base;mad")
set(WIREUP_ARROWS_acm_engine "base;mad")
set(WIREUP_ARROWS_acm_client_protocol "base;mad")
set(WIREUP_ARROWS_acm_files "base;mad;acm_engine")
set(WIREUP_ARROWS_acm_identity "base;mad")
set(WIREUP_ARROWS_pmix_engine "base;mad")
set(WIREUP_ARROWS_conn_engine "base;mad;cm_engine")
set(WIREUP_ARROWS_cm "base;mad;verbs;umad;rdmacm;cm_engine")
set(WIREUP_ARROWS_acm "base;mad;verbs;umad;rdmacm;acm_engine;acm_client_protocol;acm_files;acm_identity")
set(WIREUP_ARROWS_pmix "base;mad;pmix_engine")
set(WIREUP_ARROWS_conn "base;mad;verbs;umad;rdmacm;cm_engine;acm_engine;pmix_engine;conn_engine;cm;acm;pmix")
set(WIREUP_ARROWS_api "base;settings;mad;verbs;umad;rdmacm;cm_engine;acm_engine;pmix_engine;conn_engine;cm;acm;pmix;conn")

# wireup_module(<name> SOURCES ... USES <modules> [LINKS <external targets>] [HEADER_ONLY])
# makes the static library wireup_<name> with the alias wireup::<name>.
function(wireup_module name)
  cmake_parse_arguments(ARG "HEADER_ONLY" "" "SOURCES;USES;LINKS" ${ARGN})
  if(ARG_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "wireup_module(${name}): unknown arguments ${ARG_UNPARSED_ARGUMENTS}")
  endif()
  foreach(dep IN LISTS ARG_USES)
    if(NOT dep IN_LIST WIREUP_ARROWS_${name})
      message(FATAL_ERROR
        "wireup_module(${name}): may not use '${dep}' (allowed: ${WIREUP_ARROWS_${name}}); "
        "see docs/architecture.md, folders and arrows")
    endif()
  endforeach()
  list(TRANSFORM ARG_USES PREPEND wireup::)
  if(ARG_HEADER_ONLY)
    add_library(wireup_${name} INTERFACE)
    target_include_directories(wireup_${name} INTERFACE "${PROJECT_SOURCE_DIR}/src")
    target_link_libraries(wireup_${name} INTERFACE ${ARG_USES} ${ARG_LINKS})
  else()
    add_library(wireup_${name} STATIC ${ARG_SOURCES})
    target_include_directories(wireup_${name} PUBLIC "${PROJECT_SOURCE_DIR}/src")
    target_link_libraries(wireup_${name}
      PUBLIC ${ARG_USES} ${ARG_LINKS} wireup_sanitize
      PRIVATE wireup_compiler)
  endif()
  add_library(wireup::${name} ALIAS wireup_${name})
endfunction()

# wireup_program(<name> SOURCES ... LINKS ...): an executable of ours, with our warnings.
function(wireup_program name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINKS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_LINKS} wireup_sanitize wireup_compiler)
endfunction()

# wireup_test(<name> SOURCES ... LINKS ... [LABELS ...] [TIMEOUT s]): a GoogleTest program whose
# cases are ctests of their own, named <name>.<Suite>.<Case>.
function(wireup_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;LINKS;LABELS" ${ARGN})
  if(NOT ARG_LABELS)
    set(ARG_LABELS unit)
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  wireup_program(${name} SOURCES ${ARG_SOURCES} LINKS ${ARG_LINKS} GTest::gmock GTest::gtest_main)
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}/tests")
  gtest_discover_tests(${name} TEST_PREFIX "${name}." DISCOVERY_MODE PRE_TEST
    PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT})
endfunction()
