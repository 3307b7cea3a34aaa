// SPDX-License-Identifier: BSD-3-Clause
// Preloaded into dapltest, which finds its server by getaddrinfo() alone: lets a name say where a
// server of DAPL's provider ucm is. That is no IP address but a LID and the number of a UD queue
// pair, which the provider takes from the port and flow label of an IPv6 socket address.
//
// A name is "ib:LID:QPN", both decimal. All other names go to the C library.
#include <arpa/inet.h>
#include <dlfcn.h>
#include <netdb.h>
#include <netinet/in.h>

#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <optional>
#include <string_view>

namespace {

constexpr std::uint32_t kMaxLid = 0xBFFF;
constexpr std::uint32_t kMaxQpn = 0xFFFFFF;
constexpr std::string_view kPrefix = "ib:";

/// One result, whose address lies in it. `ai_protocol` tells it from the C library's.
struct Entry {
  addrinfo info;
  sockaddr_in6 address;
};
constexpr int kOurs = 0x6962;

/// Takes a number of at most `limit` from the front of `text`; nothing if there is none.
std::optional<std::uint32_t> take_number(std::string_view& text, std::uint32_t limit) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || value > limit)
    return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

std::optional<sockaddr_in6> parse(std::string_view name) {
  if (!name.starts_with(kPrefix))
    return std::nullopt;
  name.remove_prefix(kPrefix.size());
  const auto lid = take_number(name, kMaxLid);
  if (!lid || !name.starts_with(':'))
    return std::nullopt;
  name.remove_prefix(1);
  const auto qpn = take_number(name, kMaxQpn);
  if (!qpn || !name.empty())
    return std::nullopt;
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_port = htons(static_cast<std::uint16_t>(*lid));
  address.sin6_flowinfo = htonl(*qpn);
  return address;
}

template <typename Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {

__attribute__((visibility("default"))) int getaddrinfo(const char* node, const char* service,
                                                       const addrinfo* hints, addrinfo** result) {
  const auto address = node != nullptr ? parse(node) : std::nullopt;
  if (!address)
    return next<decltype(getaddrinfo)>("getaddrinfo")(node, service, hints, result);
  auto* entry = new (std::nothrow) Entry{};
  if (entry == nullptr)
    return EAI_MEMORY;
  entry->address = *address;
  entry->info.ai_family = AF_INET6;
  entry->info.ai_protocol = kOurs;
  entry->info.ai_addrlen = sizeof(entry->address);
  entry->info.ai_addr = reinterpret_cast<sockaddr*>(&entry->address);
  *result = &entry->info;
  return 0;
}

__attribute__((visibility("default"))) void freeaddrinfo(addrinfo* list) {
  if (list != nullptr && list->ai_protocol == kOurs) {
    delete reinterpret_cast<Entry*>(list);
  } else {
    next<decltype(freeaddrinfo)>("freeaddrinfo")(list);
  }
}
}
