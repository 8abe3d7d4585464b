"""Many small files: Spark looks at more than 32 in a job of its own first."""

FILES = 100


def test_looking_at_many_files_takes_as_many_tasks_as_there_are_threads(spark, tmp_path):
    for number in range(FILES):
        (tmp_path / f"{number}.txt").write_text("a\n")
    context = spark.sparkContext
    context.setJobGroup("many files", "many files")
    try:
        assert spark.read.text([str(path) for path in tmp_path.glob("*.txt")]).count() == FILES
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)
    tracker = context.statusTracker()
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup("many files")]
    tasks = [tracker.getStageInfo(stage).numTasks for job in jobs for stage in job.stageIds]
    threads = int(context.master.partition("[")[2].partition(",")[0])
    assert threads in tasks, tasks
    assert FILES not in tasks
