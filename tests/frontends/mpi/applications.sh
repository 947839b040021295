#!/bin/sh
# Two applications of Debian with the layer and without: HPC Challenge (package hpcc, C) and Quantum
# ESPRESSO (quantum-espresso, Fortran, with a pseudopotential of quantum-espresso-data), built with
# Debian's Open MPI. Their results must be the same, but for times, and calls of theirs must be
# served. Prints TAP.
# Usage: applications.sh FOLDER_OF_LAYERS
. "$(dirname "$0")/under_mpi.sh"
find_mpi ompi "$1"
export COLL_MPI_SERVE=always COLL_MPI_STATS=1 OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1

# twice COMMAND...: runs it in the folders plain and layer, on two ranks; their output is in out and
# err there, and how long they took in plain_ms and layer_ms.
twice() {
  for way in plain layer; do
    prefix=
    [ $way = plain ] || prefix=$layers/coll-mpi
    begin=$(date +%s%N)
    # shellcheck disable=SC2086
    (cd $way && timeout 100 $prefix $launcher -n 2 "$@" >out 2>err </dev/null) || {
      cp $way/out out
      cp $way/err err
      return 1
    }
    eval "${way}_ms=$((($(date +%s%N) - begin) / 1000000))"
  done
}

# served: what the statistics of the run with the layer count.
served() {
  awk '$2 == "all" {print $3}' layer/err
}

# same FILE: whether both runs have written the same, without what `timeless` takes out.
same() {
  timeless plain/"$1" >plain.txt
  timeless layer/"$1" >layer.txt
  [ -s plain.txt ] && diff plain.txt layer.txt >out
}

fresh() {
  rm -rf plain layer
  mkdir plain layer
}

# The problem sizes of HPL's input file, small. The lines after it are of PTRANS.
write_hpcc_input() {
  cat <<END
HPLinpack benchmark input file
of libcoll's tests
HPL.out      output file name (if any)
8            device out (6=stdout,7=stderr,file)
1            # of problems sizes (N)
400          Ns
1            # of NBs
40           NBs
0            PMAP process mapping (0=Row-,1=Column-major)
1            # of process grids (P x Q)
1            Ps
2            Qs
16.0         threshold
1            # of panel fact
2            PFACTs (0=left, 1=Crout, 2=Right)
1            # of recursive stopping criterium
4            NBMINs (>= 1)
1            # of panels in recursion
2            NDIVs
1            # of recursive panel fact.
1            RFACTs (0=left, 1=Crout, 2=Right)
1            # of broadcast
1            BCASTs (0=1rg,1=1rM,2=2rg,3=2rM,4=Lng,5=LnM)
1            # of lookahead depth
1            DEPTHs (>=0)
2            SWAP (0=bin-exch,1=long,2=mix)
64           swapping threshold
0            L1 in (0=transposed,1=no-transposed) form
0            U  in (0=transposed,1=no-transposed) form
1            Equilibration (0=no,1=yes)
8            memory alignment in double (> 0)
##### This line (no. 32) is ignored (it serves as a separator). ######
0            Number of additional problem sizes for PTRANS
1200 10000 30000   values of N
0            number of additional blocking sizes for PTRANS
40 9 8 13 13 20 16 32 64   values of NB
END
}

# Names of lines of hpccoutf.txt that do not depend on time: sizes, residuals, errors, counts.
hpcc_names='HPL_(N|NB|nprow|npcol|depth|nbdiv|nbmin|cpfact|crfact|ctop|order)
HPL_dMACH_EPS|HPL_dMAX|HPL_dMIN|HPLMaxProcs|HPLMinProcs
PTRANS_(residual|n|nb|nprow|npcol)
MPIRandomAccess(_LCG)?_(N|Errors|ErrorsFraction)|RandomAccess(_LCG)?_N
MPIFFT_(N|maxErr|Procs)|FFT_N|STREAM_VectorSize|DGEMM_N|CommWorldProcs|Success'

if command -v hpcc >/dev/null; then
  fresh
  write_hpcc_input | tee plain/hpccinf.txt >layer/hpccinf.txt
  timeless() { grep -E "^($(echo "$hpcc_names" | paste -sd '|'))=" "$1"; }
  twice hpcc && grep -q '^Success=1' layer/hpccoutf.txt
  ok "HPCC runs under the layer (without ${plain_ms-?} ms, with ${layer_ms-?} ms)"
  same hpccoutf.txt
  ok "HPCC has the results that it has without the layer"
  [ "$(served)" -gt 0 ]
  ok "calls of HPCC are served: $(served)"
else
  tap_skip "HPCC" "there is no hpcc: apt install hpcc"
fi

pseudo=/usr/share/doc/quantum-espresso/examples/atomic/pseudo-LDA-0.5/Si.pz-vbc.UPF.gz
write_silicon_input() {
  cat <<END
&control
  calculation = 'scf', prefix = 'silicon', pseudo_dir = './', outdir = './', tprnfor = .true.
/
&system
  ibrav = 2, celldm(1) = 10.2, nat = 2, ntyp = 1, ecutwfc = 12.0
/
&electrons
  conv_thr = 1.0d-8
/
ATOMIC_SPECIES
 Si 28.086 Si.UPF
ATOMIC_POSITIONS alat
 Si 0.00 0.00 0.00
 Si 0.25 0.25 0.25
K_POINTS automatic
 2 2 2 1 1 1
END
}

if command -v pw.x >/dev/null && [ -f $pseudo ]; then
  fresh
  for way in plain layer; do
    write_silicon_input >$way/silicon.in
    gunzip -c $pseudo >$way/Si.UPF
  done
  timeless() { grep -vE 'CPU|WALL|starts on|terminated on|secs|MB|wall' "$1"; }
  twice pw.x -in silicon.in && grep -q 'JOB DONE' layer/out
  ok "Quantum ESPRESSO runs under the layer (without ${plain_ms-?} ms, with ${layer_ms-?} ms)"
  same out && grep -q '^! *total energy' layer/out
  ok "Quantum ESPRESSO prints what it prints without the layer"
  [ "$(served)" -gt 0 ]
  ok "calls of Quantum ESPRESSO are served: $(served)"
else
  tap_skip "Quantum ESPRESSO" \
    "there is no pw.x or no $pseudo: apt install quantum-espresso quantum-espresso-data"
fi
tap_end
