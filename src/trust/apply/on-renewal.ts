// Notifies programs of renewed files for `hansa svid watch`: it runs a reload command, supervises a
// program, or signals a running process, as spiffe-helper does.

import { type ChildProcess, spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { constants } from 'node:os';
import { HansaError } from '../../core/errors/error.ts';

export interface OnRenewal {
  /** New files are in place. Never throws: trouble goes to `note`. */
  renewed(): void;
  /** Ends the program that `signal` supervises. Resolves when no command runs any more. */
  stop(): Promise<void>;
}

export interface RenewalPlan {
  /** Run by /bin/sh. */
  readonly command?: string | undefined;
  readonly pidFile?: string | undefined;
  readonly signal?: NodeJS.Signals | undefined;
  readonly cwd: string;
  readonly note: (text: string) => void;
}

/** HUP, SIGHUP or sighup. */
export function parseSignal(text: string): NodeJS.Signals {
  const name = `SIG${text.toUpperCase().replace(/^SIG/, '')}`;
  if (!Object.hasOwn(constants.signals, name)) {
    throw new HansaError(
      'HANSA_USAGE',
      `${JSON.stringify(text)} is not a signal. Use a name such as HUP.`,
    );
  }
  return name as NodeJS.Signals;
}

export function onRenewal(plan: RenewalPlan): OnRenewal | undefined {
  const { command, pidFile, signal } = plan;
  if (command !== undefined) {
    return signal === undefined ? reload(command, plan) : supervise(command, signal, plan);
  }
  if (pidFile === undefined) return undefined;
  return {
    renewed: () => signalPidFile(pidFile, signal ?? 'SIGHUP', plan.note),
    stop: () => Promise.resolve(),
  };
}

/** Runs the command after each renewal, one at a time. Renewals that arrive meanwhile cause one more run. */
function reload(command: string, plan: RenewalPlan): OnRenewal {
  let running: ChildProcess | undefined;
  let again = false;
  const run = (): void => {
    again = false;
    running = start(command, plan, (ending) => {
      running = undefined;
      if (ending !== 'exit code 0') plan.note(`${JSON.stringify(command)} ended with ${ending}.`);
      if (again) run();
    });
  };
  /** The last renewal may still wait for its run. */
  const idle = async (): Promise<void> => {
    if (running === undefined) return;
    await ended(running);
    await idle();
  };
  return {
    renewed: () => {
      if (running === undefined) run();
      else again = true;
    },
    stop: idle,
  };
}

/** Starts the program when the first files are in place, and signals it after each renewal. */
function supervise(command: string, signal: NodeJS.Signals, plan: RenewalPlan): OnRenewal {
  let program: ChildProcess | undefined;
  return {
    renewed: () => {
      if (program !== undefined) {
        // Its whole group: /bin/sh passes no signal on to what it runs.
        signalGroup(program, signal);
        return;
      }
      program = start(command, plan, (ending) => {
        program = undefined;
        plan.note(
          `${JSON.stringify(command)} ended with ${ending}. It starts again at the next renewal.`,
        );
      });
    },
    stop: async () => {
      if (program !== undefined) signalGroup(program, 'SIGTERM');
      await ended(program);
    },
  };
}

function start(
  command: string,
  { cwd, note }: RenewalPlan,
  onEnd: (ending: string) => void,
): ChildProcess {
  const child = spawn('/bin/sh', ['-c', command], { cwd, stdio: 'inherit', detached: true });
  let over = false;
  const end = (ending: string): void => {
    if (over) return;
    over = true;
    onEnd(ending);
  };
  child.on('error', (error) => {
    note(`Cannot run ${JSON.stringify(command)}: ${error.message}.`);
    end('no start');
  });
  child.on('exit', (code, by) => end(by === null ? `exit code ${code}` : `signal ${by}`));
  return child;
}

function signalGroup({ pid }: ChildProcess, signal: NodeJS.Signals): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, signal);
  } catch {
    // It has ended meanwhile; its exit is reported by itself.
  }
}

function ended(child: ChildProcess | undefined): Promise<void> {
  if (child === undefined || child.exitCode !== null || child.signalCode !== null) {
    return Promise.resolve();
  }
  return new Promise((resolve) => {
    child.once('exit', () => resolve());
  });
}

function signalPidFile(file: string, signal: NodeJS.Signals, note: (text: string) => void): void {
  try {
    const text = readFileSync(file, 'utf8').trim();
    // 0 and negative numbers would signal whole groups, 1 is init.
    const pid = /^\d{1,10}$/.test(text) ? Number(text) : 0;
    if (pid < 2) throw new Error('it contains no process ID');
    process.kill(pid, signal);
  } catch (error) {
    note(`Cannot signal the process of ${file}: ${(error as Error).message}.`);
  }
}
