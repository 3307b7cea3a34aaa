// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include <string>

#include "api/convert.hpp"
#include "conn/driver/options.hpp"

namespace wireup::api {
namespace {

TEST(Convert, LongTimeoutsStayInRange) {
  EXPECT_EQ(to_duration(5), Duration(5));
  EXPECT_GT(to_duration(UINT64_MAX), std::chrono::hours(24 * 365 * 100));
  EXPECT_GT(to_duration(UINT64_MAX) + std::chrono::hours(24 * 365), Duration(0));
}

TEST(Convert, EveryErrorIsAStatus) {
#define WIREUP_TEST_ERROR(name, number, sentence)  \
  EXPECT_EQ(to_status(Error(Errc::name)), number); \
  EXPECT_NE(std::string(wireup_status_name(to_status(Error(Errc::name)))), "WIREUP_ERR_?");
  WIREUP_ERRORS(WIREUP_TEST_ERROR)
#undef WIREUP_TEST_ERROR
  EXPECT_EQ(to_status(Error(std::make_error_code(std::errc::io_error))), WIREUP_ERR_INTERNAL);
}

TEST(Convert, AFailureKeepsStepReasonAndText) {
  const conn::UserEvent event{
      conn::Failed{{1, 7}, conn::Step::Path, Error::make(Errc::Timeout, "too late"), 3}, nullptr};
  const wireup_event_t result = to_event(event, "job-1");
  EXPECT_EQ(result.type, WIREUP_EVENT_FAILED);
  EXPECT_EQ(result.rank, 7U);
  EXPECT_EQ(result.step, WIREUP_STEP_PATH);
  EXPECT_EQ(result.status, WIREUP_ERR_TIMEOUT);
  EXPECT_EQ(result.attempts, 3U);
  EXPECT_STREQ(result.text, "too late");
  EXPECT_STREQ(result.nspace, "job-1");
  EXPECT_EQ(result.qp, nullptr);
}

conn::PathView resolved_view() {
  conn::PathView view;
  view.id = conn::PathId(12);
  view.resolution.target = PeerId{1, 7};
  view.resolution.wish.pkey = PKey(0x8001);
  view.resolution.state = conn::Resolution::State::Resolved;
  conn::KnownPath& path = view.resolution.path.emplace();
  path.record.dlid = Lid(20);
  path.record.mtu = 5;
  path.origin = static_cast<std::uint8_t>(acm::PathOrigin::SaQuery);
  path.generation = 3;
  view.to.dlid = Lid(20);
  view.to.sl = Sl(4);
  view.to.has_grh = true;
  view.age = std::chrono::seconds(2);
  view.port = 2;
  view.pkey_index = 1;
  view.mtu = 4;
  return view;
}

TEST(Convert, APathIsReadyForAnAddressHandle) {
  const wireup_path_t path = to_path(resolved_view());
  EXPECT_EQ(path.id, 12U);
  EXPECT_EQ(path.state, WIREUP_PATH_STATE_RESOLVED);
  EXPECT_EQ(path.rank, 7U);
  EXPECT_EQ(path.origin, WIREUP_PATH_SA_QUERY);
  EXPECT_EQ(path.generation, 3U);
  EXPECT_EQ(path.age_ns, 2'000'000'000U);
  EXPECT_EQ(path.dlid, 20);
  EXPECT_EQ(path.sl, 4);
  EXPECT_EQ(path.is_global, 1);
  EXPECT_EQ(path.port, 2);
  EXPECT_EQ(path.pkey, 0x8001);
  EXPECT_EQ(path.pkey_index, 1);
  EXPECT_EQ(path.mtu_bytes, 2048);
  EXPECT_EQ(path.record[40], 0);
  EXPECT_EQ(path.record[41], 20) << "DLID, in network byte order";
}

TEST(Convert, APathThatIsNotThereShowsNone) {
  conn::PathView view = resolved_view();
  view.resolution.state = conn::Resolution::State::Pending;
  view.resolution.target = mad::AcmAddress::lid(Lid(3));
  const wireup_path_t path = to_path(view);
  EXPECT_EQ(path.id, 12U);
  EXPECT_EQ(path.state, WIREUP_PATH_STATE_PENDING);
  EXPECT_EQ(path.rank, WIREUP_NO_RANK);
  EXPECT_EQ(path.origin, WIREUP_PATH_NONE);
  EXPECT_EQ(path.dlid, 0) << "what it was before is of no use";
}

TEST(Convert, EventsOfPathsNameThem) {
  const conn::PathId id(12);
  const wireup_event_t resolved = to_event({conn::Resolved{id, PeerId{1, 7}}, nullptr}, "job-1");
  EXPECT_EQ(resolved.type, WIREUP_EVENT_RESOLVED);
  EXPECT_EQ(resolved.rank, 7U);
  EXPECT_EQ(resolved.path, 12U);
  const wireup_event_t failed = to_event(
      {conn::Unresolved{id, std::nullopt, conn::Step::Card, Error::make(Errc::CardMissing, "none")},
       nullptr},
      "job-1");
  EXPECT_EQ(failed.type, WIREUP_EVENT_UNRESOLVED);
  EXPECT_EQ(failed.rank, WIREUP_NO_RANK);
  EXPECT_EQ(failed.step, WIREUP_STEP_CARD);
  EXPECT_EQ(failed.status, WIREUP_ERR_CARD_MISSING);
  EXPECT_STREQ(failed.text, "none");
  EXPECT_EQ(failed.path, 12U);
  const wireup_event_t changed =
      to_event({conn::PathChanged{id, PeerId{1, 7}, conn::PathEnd::Replaced}, nullptr}, "job-1");
  EXPECT_EQ(changed.type, WIREUP_EVENT_PATH_CHANGED);
  EXPECT_EQ(changed.reason, WIREUP_REASON_PATH_REPLACED);
  EXPECT_EQ(changed.path, 12U);
}

TEST(Convert, AnEventOfACallerFromBeforePathsIsNotWrittenBeyond) {
  wireup_event_t event{};
  event.path = 42;
  event.struct_size = offsetof(wireup_event_t, path);
  wireup_event_t news{};
  news.type = WIREUP_EVENT_CONNECTED;
  news.path = 7;
  EXPECT_TRUE(store(&event, news));
  EXPECT_EQ(event.type, WIREUP_EVENT_CONNECTED);
  EXPECT_EQ(event.path, 42U);
  event.struct_size = offsetof(wireup_event_t, path) - 1;
  EXPECT_FALSE(store(&event, news));
}

TEST(Convert, APathOfTheCardIsSaidToBeUnverified) {
  conn::UserEvent event{conn::Connected{{1, 7}, conn::ConnectionId(1)}, nullptr};
  EXPECT_STREQ(to_event(event, "job-1").text, "");
  event.card_path_reason = Error::make(Errc::NoPermission, "nobody may ask");
  const std::string text = to_event(event, "job-1").text;
  EXPECT_NE(text.find("card"), std::string::npos) << text;
  EXPECT_NE(text.find("nobody may ask"), std::string::npos) << text;
  event.event = conn::Failed{{1, 7}, conn::Step::Request, Error::make(Errc::Timeout, "late"), 3};
  const std::string failed = to_event(event, "job-1").text;
  EXPECT_EQ(failed.rfind("late; ", 0), 0U) << failed;
  EXPECT_NE(failed.find("nobody may ask"), std::string::npos) << failed;
  // The longest of both does not fit.
  const std::string longest(Error::kDetailSize - 1, 'x');
  event.event = conn::Failed{
      {1, 7}, conn::Step::Request, Error::make(Errc::Timeout, "%s", longest.c_str()), 3};
  EXPECT_EQ(std::string(to_event(event, "job-1").text).size(), std::size_t{WIREUP_MAX_TEXT});
}

TEST(Convert, AStructOfAnOlderCallerIsNotWrittenBeyond) {
  wireup_stats_t stats{};
  stats.struct_size = sizeof stats - 1;
  stats.connected = 42;
  EXPECT_FALSE(store(&stats, wireup_stats_t{}));
  EXPECT_EQ(stats.connected, 42U);
  stats.struct_size = sizeof stats;
  EXPECT_TRUE(store(&stats, wireup_stats_t{}));
  EXPECT_EQ(stats.connected, 0U);
  EXPECT_EQ(stats.struct_size, sizeof stats);
}

TEST(Options, CompletionQueuesFitTheJobWithinBounds) {
  EXPECT_EQ(conn::cq_entries_for(2, 64), 256U);
  EXPECT_EQ(conn::cq_entries_for(64, 64), 4096U);
  EXPECT_EQ(conn::cq_entries_for(100000, 64), conn::kMaxCqEntries);
}

TEST(Options, AJobsQKeyNeedsNoPrivilege) {
  for (const char* name : {"", "a", "prterun-h1-123@1", "slurm.pmix.7.0"}) {
    const QKey qkey = conn::job_qkey(hash_namespace(name));
    EXPECT_EQ(qkey.value() & 0x80000000U, 0U);
    EXPECT_FALSE(qkey.is_zero());
  }
  EXPECT_EQ(conn::job_qkey(0), QKey(1));
}

TEST(Options, TheFirstFullMembershipIsTaken) {
  verbs::PortInfo port;
  port.pkeys = {PKey(0x7FFF), PKey(0x8001), PKey(0x8002)};
  EXPECT_EQ(conn::choose_pkey(port, std::nullopt), PKey(0x8001));
  EXPECT_EQ(conn::choose_pkey(port, PKey(0x0002)), PKey(0x8002));
  EXPECT_TRUE(conn::choose_pkey(port, PKey(0x8003)).error().is(Errc::InvalidArgument));
  port.pkeys = {PKey(0x7FFF)};
  EXPECT_EQ(conn::choose_pkey(port, std::nullopt), PKey(0x7FFF));
  port.pkeys = {};
  EXPECT_TRUE(conn::choose_pkey(port, std::nullopt).error().is(Errc::NoDevice));
}

}  // namespace
}  // namespace wireup::api
