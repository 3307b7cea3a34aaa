// SPDX-License-Identifier: BSD-3-Clause
#include "acm/driver/preloads.hpp"

#include "acm/driver/text_file.hpp"
#include "acm/files/hosts.hpp"

namespace wireup::acm {

Preloads Preloads::read(const PreloadFiles& files, const DumpedPort& own) {
  Preloads preloads;
  if (!files.routes.empty()) {
    preloads.read_routes(files.routes, own);
  }
  if (!files.hosts.empty()) {
    preloads.read_hosts(files.hosts);
  }
  return preloads;
}

void Preloads::read_routes(const std::string& file, const DumpedPort& own) {
  const auto text = read_text_file(file);
  if (!text) {
    problems_.push_back(text.error());
    return;
  }
  const auto parsed = parse_path_dump(*text, file, own);
  problems_.insert(problems_.end(), parsed.problems.first.begin(), parsed.problems.first.end());
  for (const DumpedPath& path : parsed.value.paths) {
    if (path.outbound.dgid != own.gid) {
      paths_.emplace(path.outbound.dgid, path.outbound);
      lids_.emplace(path.outbound.dlid, path.outbound.dgid);
    }
  }
}

void Preloads::read_hosts(const std::string& file) {
  const auto text = read_text_file(file);
  if (!text) {
    problems_.push_back(text.error());
    return;
  }
  const auto parsed = parse_hosts(*text, file);
  problems_.insert(problems_.end(), parsed.problems.first.begin(), parsed.problems.first.end());
  for (const HostEntry& entry : parsed.value) {
    hosts_.insert_or_assign(entry.address, entry.gid);
  }
}

std::optional<Gid> Preloads::gid(const mad::AcmAddress& address) const {
  if (const auto gid = address.as_gid()) {
    return gid;
  }
  if (const auto lid = address.as_lid()) {
    const auto at = lids_.find(*lid);
    return at == lids_.end() ? std::nullopt : std::optional(at->second);
  }
  const auto at = hosts_.find(address);
  return at == hosts_.end() ? std::nullopt : std::optional(at->second);
}

const mad::PathRecord* Preloads::path(const mad::AcmAddress& address) const {
  const auto gid = this->gid(address);
  const auto at = gid.has_value() ? paths_.find(*gid) : paths_.end();
  return at == paths_.end() ? nullptr : &at->second;
}

void Preloads::forget(const Gid& gid) {
  paths_.erase(gid);
}

}  // namespace wireup::acm
