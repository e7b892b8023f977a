"""Whole datasets: every private picture is released exactly once, and the release is loaded as training data.

| module | what it is |
|---|---|
| `sources`, `formats` | sources of private pictures, which are read by position; the kinds of sources that are known |
| `listing`, `tars` | sources of many files: a folder, or tar files |
| `tables`, `saved`, `hub` | sources that are tables: Parquet, saved `datasets`, datasets on the hub |
| `cifar_source`, `cifar` | sources that are CIFAR-10 or CIFAR-100, and the reader of their files |
| `recording` | sources as JSON, so that a run can be resumed |
| `columns` | which columns of a table hold pictures and labels |
| `pickles` | reads the pickles of CIFAR without unpickling |
| `repeats`, `states` | files that have two names; files that change |
| `rows` | Arrow files of many rows in a run's own folder |
| `subjects` | the people whose pictures a source holds, and the price of the worst of them |
| `survey` | the digest of every picture, taken before the first picture is encoded |
| `worker` | a job, and how every worker reads the pictures of its job |
| `purpose` | the interface of the two kinds of runs: those that encode and those that redact |
| `encoding` | a run that encodes: its workers, and its public parameters |
| `redacting`, `redacted` | a run that redacts, with its workers; the lists and the manifest of what it released |
| `engines` | engines that run workers: on this machine, or on a Ray cluster |
| `footer` | checks that a Parquet file is not compressed, before it is read |
| `shards`, `shard_writing` | the file format of shards, and its reader; its writer |
| `contents` | what a manifest says of a shard |
| `folder` | the names of a release's files, and its manifest |
| `store`, `publishing` | each shard is published exactly once, even if processes are killed; how a file is published |
| `choices` | options, progress and result of a run |
| `run`, `privatize` | the record of a run; the run: seed, plan, source, survey, shards, manifest |
| `progress` | the progress bar and the table that a run shows on a terminal |
| `manifest` | the manifest or the single archive of all shards; verification |
| `loading` | `dipp.load`: a release as a PyTorch dataset |
| `parts`, `part_decoder` | the shards or the archive that it reads; how their pictures are decoded |
| `cache` | decoded pictures on disk, whose integrity is checked |
| `exporting` | decoded pictures as a folder, or as Parquet for `datasets` |
"""
