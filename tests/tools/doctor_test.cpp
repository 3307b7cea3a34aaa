// SPDX-License-Identifier: BSD-3-Clause
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "doctor_findings.hpp"
#include "doctor_report.hpp"

namespace wireup::tool {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

/// A node where everything is in place.
Findings healthy() {
  Findings findings;
  findings.host = "node1";
  findings.privileges.has_net_raw = true;
  findings.has_pmix_library = true;
  findings.socket = "/run/ibacm-unix.sock";
  PortFinding port;
  port.info.device = "softhca0";
  port.info.port = 1;
  port.info.active = true;
  port.info.state = "ACTIVE";
  port.info.lid = Lid(2);
  port.info.sm_lid = Lid(1);
  port.info.active_mtu = 4;
  port.info.active_rate = 7;
  port.info.pkeys = {PKey(0xFFFF), PKey(0), PKey(0x8001)};
  port.info.gid = Gid::make(0xFE80000000000000, Guid(0x101));
  port.gids = {port.info.gid};
  port.sa_answers = true;
  findings.ports.push_back(port);
  acm::EndpointReply endpoint;
  endpoint.port = 1;
  endpoint.pkey = PKey(0xFFFF);
  endpoint.provider = "wireup";
  endpoint.addresses = {"node1", "10.0.0.1"};
  findings.service = acm::ServiceView{{endpoint}};
  findings.endpoints.push_back({endpoint, acm::ClientStatus::Success});
  return findings;
}

/// The texts of all complaints, faults in capitals in front.
std::string complaints(const Findings& findings) {
  std::string text;
  for (const Complaint& each : diagnose(findings)) {
    text += (each.is_fault ? "FAULT " : "note ") + each.text + " DO " + each.to_do + "\n";
  }
  return text;
}

TEST(Doctor, AHealthyNodeHasNoComplaint) {
  EXPECT_THAT(diagnose(healthy()), IsEmpty());
  EXPECT_EQ(tier_of(healthy()), Tier::Service);
  EXPECT_THAT(doctor_text(healthy(), {}), HasSubstr("nothing is missing\n"));
}

TEST(Doctor, TheBestResolverIsTheTier) {
  Findings findings = healthy();
  findings.service->endpoints[0].provider = "ibacmp";
  EXPECT_EQ(tier_of(findings), Tier::Ibacm);
  acm::LockView rank;
  rank.is_held = true;
  findings.locks.push_back(rank);
  EXPECT_EQ(tier_of(findings), Tier::Ibacm);
  findings.service.reset();
  EXPECT_EQ(tier_of(findings), Tier::Rank);
  findings.locks[0].is_service = true;
  EXPECT_EQ(tier_of(findings), Tier::Service);
  findings.locks[0].is_held = false;
  EXPECT_EQ(tier_of(findings), Tier::Nobody);
}

TEST(Doctor, PortsThatAreMissingOrDown) {
  Findings findings = healthy();
  findings.ports.clear();
  EXPECT_THAT(complaints(findings), HasSubstr("FAULT this node has no InfiniBand port"));
  findings = healthy();
  findings.ports[0].info.active = false;
  findings.ports[0].info.state = "INIT";
  findings.ports[0].sa_answers.reset();
  EXPECT_THAT(complaints(findings), HasSubstr("FAULT softhca0 port 1 is INIT, not ACTIVE"));
  // Beside one that works it is no fault.
  findings.ports.push_back(healthy().ports[0]);
  EXPECT_THAT(complaints(findings), HasSubstr("note softhca0 port 1 is INIT, not ACTIVE"));
}

TEST(Doctor, AnSaThatDoesNotAnswer) {
  Findings findings = healthy();
  findings.ports[0].sa_answers = false;
  findings.ports[0].sa_fault = Error::make(Errc::Timeout, "SM LID 1 did not answer");
  EXPECT_THAT(
      complaints(findings),
      HasSubstr("FAULT the SA does not answer on softhca0 port 1: SM LID 1 did not answer"));
}

TEST(Doctor, AGroupThatIsNotJoined) {
  Findings findings = healthy();
  findings.endpoints[0].status = acm::ClientStatus::NoData;
  EXPECT_THAT(complaints(findings), HasSubstr("answers ENODATA"));
  EXPECT_THAT(doctor_text(findings, {}),
              HasSubstr("P_Key 0xffff: not joined (ENODATA); answers for "
                        "node1 10.0.0.1"));
  EXPECT_EQ(doctor_json(findings, {})["service"]["endpoints"][0]["joined"], false);
}

TEST(Doctor, NobodyResolvesAndThisProcessCannot) {
  Findings findings = healthy();
  findings.service.reset();
  findings.endpoints.clear();
  EXPECT_THAT(complaints(findings), HasSubstr("note no service resolves paths"));
  findings.privileges.has_net_raw = false;
  findings.privileges.uid = 1000;
  findings.ports[0].mad_fault = Error::make(Errc::NoPermission, "refused");
  findings.ports[0].sa_answers.reset();
  EXPECT_THAT(
      complaints(findings),
      HasSubstr("FAULT nobody resolves paths on this node, and a process of uid 1000 cannot: "
                "it lacks CAP_NET_RAW and access to the MAD device"));
  // With a service, ranks need neither.
  findings.service = healthy().service;
  EXPECT_EQ(complaints(findings), "");
}

TEST(Doctor, AStalePortFile) {
  Findings findings = healthy();
  findings.port_file = acm::PortFile{"/run/ibacm.port", 6125, false};
  EXPECT_THAT(
      complaints(findings),
      HasSubstr("FAULT /run/ibacm.port is stale: it sends librdmacm to TCP port 6125, where "
                "nobody listens DO remove /run/ibacm.port"));
  findings.port_file->is_answered = true;
  EXPECT_THAT(complaints(findings), HasSubstr("note /run/ibacm.port sends librdmacm"));
}

TEST(Doctor, MemoryPmixAndSettings) {
  Findings findings = healthy();
  findings.privileges.memlock_limit = 65536;
  findings.has_pmix_library = false;
  findings.settings = settings::layer("sa_bulk = x\n", "/etc/w.conf",
                                      [](const char*) -> const char* { return nullptr; });
  const std::string text = complaints(findings);
  EXPECT_THAT(text, HasSubstr("FAULT only 64 KiB of memory may be locked"));
  EXPECT_THAT(text, HasSubstr("FAULT libpmix.so.2 cannot be loaded"));
  EXPECT_THAT(text, HasSubstr("FAULT /etc/w.conf:1: 'sa_bulk' of 'x'"));
  // Who may lock memory without a limit has no use for one.
  findings.privileges.has_ipc_lock = true;
  EXPECT_THAT(complaints(findings), Not(HasSubstr("may be locked")));
}

TEST(Doctor, EverySettingIsShownWithItsOrigin) {
  Findings findings = healthy();
  findings.settings =
      settings::layer("device = mlx5_0\n", "/etc/w.conf", [](const char* name) -> const char* {
        return std::string_view(name) == "WIREUP_SA_BULK" ? "never" : nullptr;
      });
  const std::string text = doctor_text(findings, {});
  EXPECT_THAT(text, HasSubstr("settings (file /etc/w.conf)\n"));
  EXPECT_THAT(text, HasSubstr("  device mlx5_0 (/etc/w.conf:1)\n"));
  EXPECT_THAT(text, HasSubstr("  sa_bulk never (WIREUP_SA_BULK)\n"));
  EXPECT_THAT(text, HasSubstr("  pkey - (default)\n"));
  const auto json = doctor_json(findings, {});
  EXPECT_EQ(json["settings"].size(), settings::kCount);
  EXPECT_EQ(json["settings"]["device"]["origin"], "/etc/w.conf:1");
}

TEST(Doctor, PortsInTextAndJson) {
  const std::string text = doctor_text(healthy(), {});
  EXPECT_THAT(text, HasSubstr("softhca0 port 1 ACTIVE LID 2 (LMC 0) MTU 2048 rate 40 Gb/s"));
  EXPECT_THAT(text, HasSubstr("P_Keys 0xffff 0x8001\n"));
  EXPECT_THAT(text, HasSubstr("GID 0 fe80:0000:0000:0000:0000:0000:0000:0101\n"));
  const auto json = doctor_json(healthy(), diagnose(healthy()));
  EXPECT_EQ(json["tier"], "service");
  EXPECT_EQ(json["ports"][0]["lid"], 2);
  EXPECT_EQ(json["ports"][0]["pkeys"].size(), 2U);
  EXPECT_TRUE(json["complaints"].empty());
}

}  // namespace
}  // namespace wireup::tool
