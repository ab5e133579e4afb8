#!/bin/sh
# Installs Open MPI and MPICH with their headers, from which the plugins for several ranks are built, and a Slurm with munge,
# in which tests start ranks on virtual nodes. All of it is optional: without it, a run has one rank. Does nothing if it is
# there. Then `make` builds the plugins.
set -eu
missing=""
header() { find /usr/include /usr/lib /usr/local/include -path "*/$1/*" -name mpi.h 2> /dev/null | grep -q . || missing="$missing $2"; }
program() { command -v "$1" > /dev/null 2>&1 || [ -x "/usr/sbin/$1" ] || missing="$missing $2"; }
header openmpi libopenmpi-dev
header mpich libmpich-dev
program mpirun.openmpi openmpi-bin
program mpirun.mpich mpich
program slurmctld slurm-wlm
program munged munge
[ -z "$missing" ] && exit 0
if ! command -v apt-get > /dev/null 2>&1; then
    echo "plimsoll: this script knows apt-get only; runs of several ranks and their tests need:$missing"
    exit 0
fi
as_root=""
[ "$(id -u)" = 0 ] || as_root="sudo"
echo "plimsoll: installing$missing"
{ $as_root apt-get update -qq && DEBIAN_FRONTEND=noninteractive $as_root apt-get install -y -qq --no-install-recommends $missing libpmix2; } > /dev/null 2>&1 ||
    echo "plimsoll: could not install$missing; runs have one rank then, or their tests are skipped"
