// SPDX-License-Identifier: BSD-3-Clause
// Texts of the C API, and the last error of a thread.
#include <array>

#include "api/convert.hpp"
#include "api/guard.hpp"

namespace {

constexpr std::size_t kTextSize = 320;

/// Without constructors, so that it may be used while a thread ends.
thread_local std::array<char, kTextSize> last_error{};

struct StatusText {
  wireup_status_t status;
  const char* name;
  const char* sentence;
};

constexpr StatusText kStatusTexts[] = {
    {WIREUP_OK, "WIREUP_OK", "success"},
    {WIREUP_ERR_INVALID_ARGUMENT, "WIREUP_ERR_INVALID_ARGUMENT", "an argument is out of its range"},
    {WIREUP_ERR_INVALID_STATE, "WIREUP_ERR_INVALID_STATE", "the call is not allowed now"},
    {WIREUP_ERR_NOT_FOUND, "WIREUP_ERR_NOT_FOUND", "no such peer or object"},
    {WIREUP_ERR_NO_DEVICE, "WIREUP_ERR_NO_DEVICE", "no usable RDMA device or port"},
    {WIREUP_ERR_NO_PMIX, "WIREUP_ERR_NO_PMIX", "no PMIx server answers"},
    {WIREUP_ERR_NO_SUBNET_MANAGER, "WIREUP_ERR_NO_SUBNET_MANAGER",
     "the port is not active: no subnet manager has configured it"},
    {WIREUP_ERR_NO_PERMISSION, "WIREUP_ERR_NO_PERMISSION", "a privilege is missing"},
    {WIREUP_ERR_NO_RESOURCES, "WIREUP_ERR_NO_RESOURCES",
     "the device, the process or the system is exhausted"},
    {WIREUP_ERR_MEMLOCK_LIMIT, "WIREUP_ERR_MEMLOCK_LIMIT", "the locked-memory limit is too low"},
    {WIREUP_ERR_TIMEOUT, "WIREUP_ERR_TIMEOUT", "the deadline passed"},
    {WIREUP_ERR_MALFORMED, "WIREUP_ERR_MALFORMED", "received bytes do not follow the format"},
    {WIREUP_ERR_UNSUPPORTED, "WIREUP_ERR_UNSUPPORTED",
     "the peer or the device does not support this"},
    {WIREUP_ERR_REJECTED, "WIREUP_ERR_REJECTED", "the peer refused the connection"},
    {WIREUP_ERR_PEER_GONE, "WIREUP_ERR_PEER_GONE", "the peer does not answer any more"},
    {WIREUP_ERR_PATH_UNRESOLVED, "WIREUP_ERR_PATH_UNRESOLVED",
     "no path to the peer's port could be resolved"},
    {WIREUP_ERR_CARD_MISSING, "WIREUP_ERR_CARD_MISSING",
     "the peer has not published its connection card"},
    {WIREUP_ERR_STALE, "WIREUP_ERR_STALE", "the information belongs to an earlier incarnation"},
    {WIREUP_ERR_BUSY, "WIREUP_ERR_BUSY", "temporarily out of room, try again"},
    {WIREUP_ERR_INTERNAL, "WIREUP_ERR_INTERNAL", "a defect in wireup"},
};

const StatusText* find(wireup_status_t status) noexcept {
  for (const StatusText& entry : kStatusTexts) {
    if (entry.status == status) {
      return &entry;
    }
  }
  return nullptr;
}

}  // namespace

namespace wireup::api {

wireup_status_t report_text(wireup_status_t status, std::string_view text) noexcept {
  const std::size_t size = std::min(text.size(), last_error.size() - 1);
  std::memcpy(last_error.data(), text.data(), size);
  last_error[size] = '\0';
  return status;
}

wireup_status_t report(const Error& error) noexcept {
  return report_text(to_status(error), error.what());
}

}  // namespace wireup::api

extern "C" {

uint32_t wireup_version(void) {
  return WIREUP_VERSION_MAJOR * 1000000U + WIREUP_VERSION_MINOR * 1000U + WIREUP_VERSION_PATCH;
}

const char* wireup_status_name(wireup_status_t status) {
  const StatusText* entry = find(status);
  return entry != nullptr ? entry->name : "WIREUP_ERR_?";
}

const char* wireup_status_str(wireup_status_t status) {
  const StatusText* entry = find(status);
  return entry != nullptr ? entry->sentence : "unknown status";
}

const char* wireup_step_str(wireup_step_t step) {
  switch (step) {
#define WIREUP_STEP_TEXT(name, number, text) \
  case number:                               \
    return text;
    WIREUP_CONN_STEPS(WIREUP_STEP_TEXT)
#undef WIREUP_STEP_TEXT
  }
  return "unknown";
}

const char* wireup_reason_str(wireup_reason_t reason) {
  switch (reason) {
    case WIREUP_REASON_NONE:
      return "no reason";
    case WIREUP_REASON_LOCAL:
      return "this side closed it and the peer has confirmed";
    case WIREUP_REASON_PEER:
      return "the peer closed it";
    case WIREUP_REASON_NO_ANSWER:
      return "this side closed it and the peer did not confirm in time";
    case WIREUP_REASON_REPLACED:
      return "the peer started a new connection";
    case WIREUP_REASON_FABRIC_CHANGED:
      return "addresses or the subnet manager changed, or another process keeps the node's paths";
    case WIREUP_REASON_PATH_REPLACED:
      return "the node has learned another path, or dropped this one";
    case WIREUP_REASON_PATH_FAILED:
      return "it was reported as failed";
  }
  return "unknown";
}

const char* wireup_path_origin_str(wireup_path_origin_t origin) {
  switch (origin) {
    case WIREUP_PATH_NONE:
      return "none";
    case WIREUP_PATH_LOCAL:
      return "local";
    case WIREUP_PATH_ACM_MULTICAST:
      return "acm_multicast";
    case WIREUP_PATH_SA_QUERY:
      return "sa_query";
    case WIREUP_PATH_CARD:
      return "card";
    case WIREUP_PATH_PRELOADED:
      return "preloaded";
    case WIREUP_PATH_IBACM:
      return "ibacm";
    case WIREUP_PATH_KERNEL:
      return "kernel";
  }
  return "unknown";
}

const char* wireup_last_error(void) {
  return last_error.data();
}

}  // extern "C"
