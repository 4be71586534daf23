#include "cli/stderr_filter.h"

#include <gtest/gtest.h>

namespace archipelago::cli {
namespace {

const std::string kRule = std::string(74, '-') + '\n';
const std::string kUntested =
    kRule +
    "WARNING: The selected 'osc' module 'rdma' is not tested for post-failure\n"
    "operation, yet you have requested support for fault tolerance.\n"
    "When using this component, normal failure free operation is expected;\n"
    "However, failures may cause the application to abort, crash or deadlock.\n"
    "\n"
    "In this framework, the following components are tested to operate under\n"
    "failure scenarios: {}\n" +
    kRule;
const std::string kExit =
    kRule +
    "prterun detected that one or more processes exited with non-zero status,\n"
    "thus causing the job to be terminated. The first process to do so was:\n"
    "\n"
    "   Process name: [prterun-vm-12537@1,0]\n"
    "   Exit code:    78\n" +
    kRule;
const std::string kUnfinalized =
    kRule +
    "prterun has exited due to process rank 0 with PID 487 on node vm exiting\n"
    "improperly. There are three reasons this could occur:\n"
    "\n"
    "1. this process did not call \"init\" before exiting, but others in the\n"
    "job did. This can cause a job to hang indefinitely while it waits for\n"
    "all processes to call \"init\". By rule, if one process calls \"init\",\n"
    "then ALL processes must call \"init\" prior to termination.\n"
    "\n"
    "2. this process called \"init\", but exited without calling \"finalize\".\n"
    "By rule, all processes that call \"init\" MUST call \"finalize\" prior to\n"
    "exiting or it will be considered an \"abnormal termination\"\n"
    "\n"
    "3. this process called \"MPI_Abort\" or \"prte_abort\" and the mca\n"
    "parameter prte_create_session_dirs is set to false. In this case, the\n"
    "run-time cannot detect that the abort call was an abnormal\n"
    "termination. Hence, the only error message you will receive is this\n"
    "one.\n"
    "\n"
    "This may have caused other processes in the application to be\n"
    "terminated by signals sent by prterun (as reported here).\n"
    "\n"
    "You can avoid this message by specifying -quiet on the prterun command\n"
    "line.\n" +
    kRule;
const std::string kOther =
    kRule + "There are not enough slots available\n\nin the system\n" + kRule;

std::string filtered(const std::string& text) {
  StderrFilter filter;
  std::string output = filter.pass(text);
  return output + filter.release();
}

TEST(StderrFilter, DropsTheKnownBlocksAndTheirEcho) {
  EXPECT_EQ(filtered(kUntested), "");
  EXPECT_EQ(filtered(kExit), "");
  EXPECT_EQ(filtered(kUnfinalized), "");
  EXPECT_EQ(filtered("8 more processes have sent help message help-mpi-ft.txt / module:untested\n"
                     " 1 more process has sent help message help-mpi-ft.txt / module:untested\n"
                     " \nLAUNCHER JOB OBJECT NOT FOUND\n" +
                     std::string("\0\0\n", 3)),
            "");
}

TEST(StderrFilter, DropsWhatTheRanksOfABrokenIslandSay) {
  EXPECT_EQ(
      filtered("a\n\nNBC_Progress: an error 75 was found during schedule 0x55d9 at row-offset "
               "93 - aborting the schedule\n\n\nb\n"
               "[warn] Epoll MOD(4) on fd 21 failed. Old events were 6; read change was 2 "
               "(del); write change was 0 (none); close change was 0 (none): Bad file "
               "descriptor\n\nc\n"),
      "a\n\n\nb\n\nc\n");
}

TEST(StderrFilter, DropsMessagesBehindTheNulOfTheOneBefore) {
  const std::string nul(1, '\0');
  EXPECT_EQ(
      filtered(kUntested + nul +
               "1 more process has sent help message help-mpi-ft.txt / "
               "module:untested:failundef\n" +
               nul +
               "2 more processes have sent help message help-mpi-ft.txt-2026-11-30 05:16:05 / "
               "module:untested:failundef\n" +
               nul + "a\n"),
      "a\n");
}

TEST(StderrFilter, DropsWhatHasNoEndOfLineOfItsOwn) {
  const std::string missing = "LAUNCHER JOB OBJECT NOT FOUND";
  EXPECT_EQ(filtered(missing + missing + "a\n" + missing + "\nb\n" + missing), "a\nb\n");
}

TEST(StderrFilter, DropsTroubleWithProcessesThatAreGoneOnceTheRunHasEnded) {
  const std::string line =
      "[vm:1234] PRTE ERROR: Not found in file base/odls_base_default_fns.c at line 1762\n";
  EXPECT_EQ(filtered(line), line);
  StderrFilter filter;
  filter.run_has_ended();
  EXPECT_EQ(filter.pass(line + "a\n"), "a\n");
}

TEST(StderrFilter, TakesOutAnErrorOfUnpackingADeathsNews) {
  EXPECT_EQ(filtered("a\n[h1:25841] OPAL ERROR: Data unpack had inadequate space in file "
                     "/openmpi-5.0.11/ompi/errhandler/errhandler.c at line 444\nb\n"),
            "a\nb\n");
}

TEST(StderrFilter, KeepsEverythingElse) {
  for (const std::string& text :
       {std::string("one\n\ntwo\n"), kOther, kRule, kRule + kRule, std::string("no end of line"),
        std::string("3 more processes have sent help message help-mpi-btl.txt / x\n")}) {
    EXPECT_EQ(filtered(text), text);
  }
  EXPECT_EQ(filtered("a\n" + kUntested + "b\n" + kOther + kExit + "c\n"),
            "a\nb\n" + kOther + "c\n");
}

TEST(StderrFilter, TakesOutNuls) {
  const std::string nul(1, '\0');
  EXPECT_EQ(filtered("a\n" + nul + "b" + nul + "\n\n" + nul), "a\nb\n\n");
  EXPECT_EQ(filtered(nul + kUntested + nul + "c\n"), "c\n");
}

TEST(StderrFilter, KeepsLinesThatFellIntoABlock) {
  std::string mixed = kUntested;
  mixed.insert(mixed.find("When using"), "2026-11-29T19:55:01Z INFO learner=1 hello\n");
  EXPECT_EQ(filtered(mixed), "2026-11-29T19:55:01Z INFO learner=1 hello\n");
}

TEST(StderrFilter, GivesBackABlockThatDoesNotEnd) {
  const std::string cut = kUntested.substr(0, kUntested.find("However"));
  EXPECT_EQ(filtered(cut), cut);
}

TEST(StderrFilter, DoesNotDependOnHowTheStreamIsCut) {
  const std::string text = "a\n" + kUntested + kOther + "b\n" + kExit + "c";
  for (std::size_t size : {1, 2, 7, 75, 100}) {
    StderrFilter filter;
    std::string output;
    for (std::size_t at = 0; at < text.size(); at += size) {
      output += filter.pass(std::string_view(text).substr(at, size));
    }
    EXPECT_EQ(output + filter.release(), "a\n" + kOther + "b\nc") << size;
  }
}

}  // namespace
}  // namespace archipelago::cli
