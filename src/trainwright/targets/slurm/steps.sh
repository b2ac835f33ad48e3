# How the steps of a run are started, counted and ended. Sourced by every sbatch file of a bundle; the same for all.
# Before: $PWD is the run's folder; set are TRAINWRIGHT_RUN_DIR, TRAINWRIGHT_PYTHON, stage, pyxis (options of srun)
# and enter (what a command is prefixed with).

run=${PWD##*/}
attempt=${TRAINWRIGHT_FIRST_ATTEMPT:-1}
submitted_from=$SLURM_SUBMIT_DIR
mkdir -p logs events
head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
# below the ports that kernels hand out by themselves; by job, because jobs may share a node
export TRAINWRIGHT_RENDEZVOUS=$head:$((20000 + SLURM_JOB_ID % 10000))

event() { # KIND FIELDS
  printf '{"v":1,"t":%s,"run_id":"%s","attempt":%s,"rank":"s","kind":"%s",%s}\n' \
    "$(date +%s.%N)" "$run" "$attempt" "$1" "$2" >>"events/$attempt-s.jsonl"
}

on_node() { # STEP ARGUMENT...: runs on every node; trainwright starts a rank for each accelerator
  trap : USR1 TERM # signals of the step reach this shell too, but are meant for what it waits for
  cd "$SLURM_SUBMIT_DIR" 2>/dev/null || cd "$TRAINWRIGHT_RUN_DIR"
  local step=$1 code=0
  shift
  ${enter[@]+"${enter[@]}"} "$TRAINWRIGHT_PYTHON" -P -m trainwright "$step" "$TRAINWRIGHT_RUN_DIR" "$@" || code=$?
  case $code in 138 | 143) code=75 ;; esac # USR1 or TERM before Python listened: as if it had saved, nothing was begun
  echo "$code" >"$TRAINWRIGHT_RUN_DIR/logs/$TRAINWRIGHT_ATTEMPT/$step-$SLURM_NODEID.exit"
  # 75, saved on a signal: other nodes may be saving still, and --kill-on-bad-exit would end them
  if [ "$code" = 75 ]; then code=0; fi
  exit "$code"
}

between() { # STEP CODE: what to do after an attempt ended so; the budgets are those of the spec
  local inside=(${enter[@]+"${enter[@]}"})
  if [ ${#pyxis[@]} != 0 ]; then inside=(srun --nodes=1 --ntasks=1 --overlap --mpi=none "${pyxis[@]}"); fi
  ${inside[@]+"${inside[@]}"} "$TRAINWRIGHT_PYTHON" -P -m trainwright.targets.slurm.between "$TRAINWRIGHT_RUN_DIR" "$@" \
    --attempt "$attempt" --nodes "$SLURM_JOB_NODELIST" ${stopping:+--stopping} || echo "stop ${2/lost/1}"
}

# USR1 comes ahead of the time limit (--signal) and is passed on to the step; TERM a step has from Slurm itself
stopping='' interrupted='' srun=''
trap 'stopping=1 interrupted=1; [ -z "$srun" ] || kill -USR1 "$srun" 2>/dev/null || true' USR1
trap 'interrupted=1' TERM

requeue() { # a job that was cancelled, or is past its limit, is no longer RUNNING and must not come back
  if [ "$(squeue --noheader --jobs="$SLURM_JOB_ID" --format=%T)" = RUNNING ]; then
    scontrol requeue "$SLURM_JOB_ID" && sleep 600
  fi
}

# A running job cannot change its --exclude: a successor takes its place and all that waits for it.
succeed_without() { # NODES
  local new waiting
  new=$(
    for name in ${!SLURM_@}; do [ "$name" = SLURM_CONF ] || unset "$name"; done # this job's are not the successor's
    cd "$submitted_from" || cd "$TRAINWRIGHT_RUN_DIR"
    sbatch --parsable --chdir="$TRAINWRIGHT_RUN_DIR" --job-name="$run.$stage" --dependency=singleton \
      --exclude="$1" "$TRAINWRIGHT_RUN_DIR/bundle/$stage.sbatch"
  ) || return 1
  new=${new%%;*} # sbatch adds the cluster's name where there are several
  for waiting in $(squeue --noheader --format=%i --states=PENDING --name="$run.finish"); do
    scontrol update JobId="$waiting" Dependency="afterok:$new" || true
  done
  event restarted "\"stage\":\"$stage\",\"job\":\"$new\",\"exclude\":\"$1\""
}

act() { # STEP ANSWER: returns when the step is to run again, here and now
  case $2 in
    "again "*) sleep "${2#again }" ;;
    requeue) requeue; exit 75 ;;
    "exclude "*) succeed_without "${2#exclude }" || requeue; exit 75 ;;
    *)
      if [ -e cancel.json ]; then phase=CANCELLED; else phase=FAILED; fi
      if [ -z "${optional:-}" ]; then
        event finished "\"phase\":\"$phase\",\"stage\":\"$1\",\"code\":${2#stop }"
      fi
      exit "${2#stop }"
      ;;
  esac
}

run_step() { # STEP [ARGUMENTS]: on every node, again while its budget lasts; ARGUMENTS are expanded on the node
  local step=$1 arguments=${2:-} code answer lost=''
  if [ "${SLURM_RESTART_COUNT:-0}" != 0 ]; then lost=1; fi
  while :; do
    while [ -e "logs/$attempt/$step.log" ]; do attempt=$((attempt + 1)); done
    export TRAINWRIGHT_ATTEMPT=$attempt
    if [ "$lost" ]; then # Slurm took the nodes away: find out why, and which of them failed
      lost=''
      answer=$(between "$step" lost)
      case $answer in "again "*) ;; *) act "$step" "$answer" ;; esac
    fi
    if [ -e cancel.json ]; then act "$step" "stop 75"; fi
    mkdir -p "logs/$attempt"
    event started "\"stage\":\"$step\",\"job\":\"$SLURM_JOB_ID\",\"nodes\":\"$SLURM_JOB_NODELIST\""
    # one task a node, which may use all the job's CPUs there; torchrun needs no MPI; nobody types
    srun --input=none --ntasks-per-node=1 --cpus-per-task="$SLURM_CPUS_ON_NODE" --cpu-bind=none --mpi=none --kill-on-bad-exit=1 \
      ${pyxis[@]+"${pyxis[@]}"} bash -c "$(declare -p enter); $(declare -f on_node); on_node $step $arguments" \
      >>"logs/$attempt/$step.log" 2>&1 &
    srun=$!
    while :; do # a trapped signal ends `wait`, not the step
      interrupted='' code=0
      wait "$srun" || code=$?
      [ "$interrupted" ] || break
    done
    srun=''
    if [ "$code" = 0 ] && ! grep -qsx 75 "logs/$attempt/$step"-*.exit; then return 0; fi
    answer=$(between "$step" "$code")
    act "$step" "$answer"
  done
}
