"""Whole datasets: every private picture is released exactly once, and the release is loaded as training data.

| module | what it is |
|---|---|
| `sources`, `formats` | where private pictures come from, read by position; the kinds of sources that are known |
| `listing`, `tables`, `saved`, `cifar` | these kinds: many files, tables, saved `datasets`, CIFAR-10 and CIFAR-100 |
| `columns` | which columns of a table hold pictures and labels |
| `pickles` | reads the pickles of CIFAR without unpickling |
| `repeats`, `states` | files that have two names; files that change |
| `rows` | Arrow files of many rows in a run's own folder |
| `subjects` | whose pictures they are, and what the worst of these people pays |
| `survey` | what every picture was before the first was encoded |
| `worker` | a job, and reading its pictures: what every worker does |
| `purpose` | what a run is for |
| `encoding` | a run that encodes: its workers, and what is recorded of it |
| `redacting`, `redacted` | a run that redacts, with its workers; the lists and the manifest of what it released |
| `engines` | how workers are run: on this machine, or on a Ray cluster |
| `footer` | sees that a Parquet file is not compressed, before it is read |
| `shards`, `contents` | what a shard is; what a manifest says of it |
| `store` | how each is published exactly once, even if processes are killed |
| `choices` | what a run is asked for, how it is carried out and watched, and what came of it |
| `run`, `privatize` | a run as it is recorded; the run: seed, plan, source, survey, shards, manifest |
| `progress` | the bar and the table that a run shows on a terminal |
| `manifest` | what all shards together hold, as a manifest or as one archive; verification |
| `loading` | `dipp.load`: a release as a PyTorch dataset |
| `parts` | the shards or the archive that it reads |
| `cache` | decoded pictures on the disk, which are not believed blindly |
| `exporting` | decoded pictures as a folder, or as Parquet for `datasets` |
"""
