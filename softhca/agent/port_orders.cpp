// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/agent/port_orders.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>

#include "softhca/fabric/words.hpp"
#include "softhca/mad/bytes.hpp"

namespace softhca {
namespace {

constexpr char kUsage[] =
    "known are: link PORT down|up, pkey PORT INDEX VALUE, gid PORT INDEX GUID, reregister PORT,\n"
    "gsi and sa; PORT is HOST, HOST:PORT or HOST:DEVICE:PORT\n";

}  // namespace

CommandResult PortOrders::run(std::span<const std::string> words) {
  if (words.size() < 2) {
    return {EINVAL, kUsage};
  }
  const auto ports = ports_by_name(words[1], view_);
  if (ports.size() != 1) {
    return {EINVAL, "\"" + words[1] + "\" names " + std::to_string(ports.size()) +
                        " ports; name one by HOST, HOST:PORT or HOST:DEVICE:PORT\n"};
  }
  if (words[0] == "link" && words.size() == 3) {
    return link(ports[0], words[2]);
  }
  if (words[0] == "pkey" && words.size() == 4) {
    return pkey(ports[0], words[2], words[3]);
  }
  if (words[0] == "gid" && words.size() == 4) {
    return gid(ports[0], words[2], words[3]);
  }
  if (words[0] == "reregister" && words.size() == 2) {
    loop_.reregister(view_.brief(ports[0]).lid);
    return {};
  }
  return {EINVAL, kUsage};
}

CommandResult PortOrders::link(PortIndex port, const std::string& state) {
  if (state != "down" && state != "up") {
    return {EINVAL, "link PORT down or up\n"};
  }
  const PortAttr attr = view_.port(port);
  char line[96];
  std::snprintf(line, sizeof line, "%s \"H-%016" PRIx64 "\"[%u]\n",
                state == "down" ? "Unlink" : "ReLink", attr.node_guid, attr.port_num);
  const int fd = console_.empty() ? -1 : open(console_.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) {
    return {ENOTCONN,
            "ibsim's console cannot be reached; start softhca-agent with --console FIFO, "
            "where FIFO is ibsim's standard input\n"};
  }
  const auto size = static_cast<ssize_t>(std::strlen(line));
  const bool written = write(fd, line, static_cast<std::size_t>(size)) == size;
  close(fd);
  loop_.kick();
  return written ? CommandResult{} : CommandResult{EIO, "ibsim does not read its console\n"};
}

CommandResult PortOrders::pkey(PortIndex port, const std::string& index, const std::string& value) {
  const auto slot = parse_number(index, 0, kMaxPkeys - 1);
  const auto key = parse_number(value, 0, 0xFFFF);
  if (!slot || !key || *slot >= view_.port(port).pkey_count) {
    return {EINVAL, "the index must be below " + std::to_string(view_.port(port).pkey_count) +
                        ", the value at most 0xffff\n"};
  }
  const auto block = static_cast<std::uint32_t>(*slot / kPkeysPerBlock);
  const bool done = loop_.set(port, kAttrPkeyTable, block, [&](SmpData& data) {
    put16(data, *slot % kPkeysPerBlock * 2, static_cast<std::uint16_t>(*key));
  });
  return done ? CommandResult{} : CommandResult{EIO, "the port does not take it\n"};
}

CommandResult PortOrders::gid(PortIndex port, const std::string& index, const std::string& guid) {
  const auto slot = parse_number(index, 0, kMaxGids - 1);
  const auto value = parse_number(guid, 0, UINT64_MAX);
  if (!slot || !value) {
    return {EINVAL, "the index must be below " + std::to_string(kMaxGids) +
                        ", the GUID a number; 0 is what the node says\n"};
  }
  loop_.set_guid(port, static_cast<std::uint32_t>(*slot), *value);
  return {};
}

}  // namespace softhca
