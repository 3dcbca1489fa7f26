// hansa trust rotate: new authorities of this site in the place of old ones, as a whole or step by step.

import { MessageChannel } from 'node:worker_threads';
import { Command, Option } from 'commander';
import { sleep } from '../../core/clock/clock.ts';
import type { AuthorityKind } from '../../core/identity/authority/phases.ts';
import type { AuthorityStatus, KindStatus, RotationStatus } from '../rotation/rotation.ts';
import type { StepRequest } from '../rotation/rotation-routes.ts';
import { usageError } from '../../core/command/usage-error.ts';
import type { SiteClient } from '../../core/plane/site-client.ts';
import type { CommandKit, OutputFormat } from '../../core/plane/command-kit.ts';
import { printable, renderColumns } from '../../core/command/columns.ts';
import { pathTo } from '../../core/plane/path-to.ts';
import { trustPaths } from '../paths.ts';

interface RotateOptions {
  readonly emergency?: boolean;
  readonly fresh?: boolean;
  readonly jwt?: boolean;
  readonly wait: boolean;
  readonly output: OutputFormat;
}

/** A rotation lasts minutes; who watches it wants to see it end. */
const pollMs = 500;

export function rotateCommand(kit: CommandKit): Command {
  return new Command('rotate')
    .description('put a new authority in the place of the one that signs, without a failed call')
    .addOption(jwtOption())
    .option('--emergency', 'at once: the one that signs now is believed by nobody from here on')
    .option('--fresh', 'with --emergency: a new key, also where one is prepared already')
    .option('--no-wait', 'return when it is under way; it goes on by itself')
    .addOption(kit.outputOption(['json', 'yaml', 'name']))
    .addHelpText(
      'after',
      `
A site rotates by itself: the next authority is published soon after one begins to sign, and signs
when half of the time that this one has is over. This does it now: the next one signs as soon as the
bundle had time to spread and every live peer has confirmed that it holds it, or when the deadline for
that is over. Ending the command does not end the rotation.

--emergency is for a key that somebody else may have. Everything that it signed is replaced here at
once. The next authority is taken, which others hold already, so that nobody is lost; with --fresh it
is given up too, in case that key is known as well. Then nobody can verify this site who has not been
given the bundle anew: it is told whom that concerns.

Examples:
  hansa trust rotate
  hansa trust rotate --jwt
  hansa trust rotate --emergency --yes
  hansa trust rotate prepare && hansa trust rotate status`,
    )
    .action((options: RotateOptions, command: Command) => rotate(kit, options, command))
    .addCommand(
      stepCommand(kit, {
        verb: 'prepare',
        description: 'make a new authority and publish it, before it signs anything',
        done: 'It is published, and signs nothing yet.',
        named: false,
        help: 'Peers are told at once and fetch the new bundle; workloads get it pushed.',
      }),
    )
    .addCommand(
      stepCommand(kit, {
        verb: 'activate',
        description: 'let the prepared authority sign from now on, whoever holds it',
        done: 'It signs from now on. What the one before it signed stays valid until it expires.',
        named: true,
        help: 'Does not wait, and names whoever is not known to hold it: peers that have not confirmed, and\nother federations while the bundle has not been published for ca.spreadSeconds.',
      }),
    )
    .addCommand(
      stepCommand(kit, {
        verb: 'taint',
        description: 'replace everything that an old authority signed, at once',
        done: 'What it signed is replaced.',
        named: true,
        help: 'Without an id, the one that signed last.',
      }),
    )
    .addCommand(
      stepCommand(kit, {
        verb: 'revoke',
        description: 'take an authority out of the bundle: nothing that it signed is believed',
        done: 'It is out of the bundle.',
        named: true,
        help: 'A prepared or tainted one at any time; an old one when nothing that it signed is valid.\nBelow an upstream authority (ca.upstreamCertFile) the bundle is the root above the site: by that,\nwhat a revoked authority signed is believed until it expires.',
        confirms: true,
      }),
    )
    .addCommand(statusCommand(kit));
}

function jwtOption(): Option {
  return new Option('--jwt', 'the keys that sign JWT-SVIDs, not the X.509 authorities');
}

async function rotate(kit: CommandKit, options: RotateOptions, command: Command): Promise<void> {
  const { emergency = false, fresh = false, jwt = false } = options;
  if (fresh && !emergency) throw usageError('--fresh is for --emergency only.');
  refuseNames(options.output);
  const kind: AuthorityKind = jwt ? 'jwt' : 'x509';
  await kit.withClient(command, async (client) => {
    const found = await statusFrom(client);
    const replaced = activeOf(found, kind);
    if (emergency) await kit.confirm(command, printable(emergencyQuestion(found, kind, fresh)));
    let status = await post(client, 'rotate', { kind, emergency, fresh });
    const isDone = (): boolean => activeOf(status, kind)?.id !== replaced?.id;
    // Between two questions nothing else would keep the process: its clock's timers do not.
    const { port1: anchor } = new MessageChannel();
    anchor.on('message', () => undefined);
    try {
      let told = '';
      while (!isDone() && options.wait) {
        const waits = waitingFor(kindOf(status, kind));
        if (waits !== told) kit.note(printable(waits));
        told = waits;
        await sleep(kit.io.clock, pollMs, kit.io.interruption());
        status = await statusFrom(client);
      }
    } finally {
      anchor.close();
    }
    const rendered = kit.renderValue(status, options.output);
    if (rendered !== undefined) {
      kit.print(rendered);
      return;
    }
    const active = activeOf(status, kind);
    kit.print(
      printable(
        isDone()
          ? `${active?.id.slice(0, 16)} signs from now on.`
          : `Under way: ${waitingFor(kindOf(status, kind))}`,
      ),
    );
    const without = kindOf(status, kind)?.wentOnWithout ?? [];
    if (isDone() && without.length > 0) {
      const next = emergency ? ` ${bootstrapAgain(status.trustDomain)}` : '';
      kit.note(printable(`Not confirmed by ${without.join(', ')}.${next}`));
    }
    if (emergency && replaced?.belowRoot === true) {
      kit.note(
        printable(
          `Others verify by the roots above this site, and believe what the old key signs until ${replaced.notAfter}. Have the authority above replaced, and rotate again, so that they do not.`,
        ),
      );
    }
  });
}

/** A new invitation would ask for a revocation first, and everything granted with it. */
function bootstrapAgain(trustDomain: string): string {
  return `Who cannot verify this site any more is told its fingerprint (hansa trust bundle fingerprint) by a way that they trust, and runs: hansa trust bundle bootstrap ${trustDomain} --fingerprint …; a SPIRE is given the bundle (hansa trust bundle show) with spire-server bundle set.`;
}

function emergencyQuestion(status: RotationStatus, kind: AuthorityKind, fresh: boolean): string {
  const { prepared, fresh: all } = status.emergencyLoses;
  const lost = kind === 'jwt' ? [] : fresh ? all : prepared;
  const whom =
    lost.length === 0
      ? ''
      : ` Not known to hold the next one: ${lost.join(', ')}. ${bootstrapAgain(status.trustDomain)}`;
  return `Nothing that the authority signed is believed from here on.${whom} Rotate?`;
}

interface Step {
  readonly verb: string;
  readonly description: string;
  readonly done: string;
  /** Whether an id may be given. */
  readonly named: boolean;
  readonly help: string;
  readonly confirms?: boolean;
}

function stepCommand(kit: CommandKit, step: Step): Command {
  const command = new Command(step.verb)
    .description(step.description)
    .addOption(jwtOption())
    .addOption(kit.outputOption(['json', 'yaml']))
    .addHelpText(
      'after',
      `
${step.help}

Examples:
  hansa trust rotate ${step.verb}${step.named ? `\n  hansa trust rotate ${step.verb} 7f3a9c02d1e45b60` : ''}`,
    );
  if (step.named) {
    command.argument('[id]', 'of the authority, or at least 8 characters of its beginning');
  }
  return command.action(async (...parameters: unknown[]) => {
    const id = step.named ? (parameters[0] as string | undefined) : undefined;
    const { jwt, output } = optionsOf(command);
    if (step.confirms === true) {
      await kit.confirm(command, `Take ${id ?? 'the one that signed last'} out of the bundle?`);
    }
    await kit.withClient(command, async (client) => {
      const kind: AuthorityKind = jwt === true ? 'jwt' : 'x509';
      // Afterwards there is no prepared one any more to ask about.
      const without =
        step.verb === 'activate' && kind === 'x509'
          ? (await statusFrom(client)).emergencyLoses.prepared
          : [];
      const status = await post(client, step.verb, { kind, ...(id === undefined ? {} : { id }) });
      kit.print(kit.renderValue(status, output) ?? [step.done, tableOf(status, kit)].join('\n'));
      if (without.length > 0) {
        kit.note(
          printable(
            `Not known to hold it: ${without.join(', ')}. ${bootstrapAgain(status.trustDomain)}`,
          ),
        );
      }
    });
  });
}

function statusCommand(kit: CommandKit): Command {
  return new Command('status')
    .description('show the authorities of this site, their phases, and what a rotation waits for')
    .addOption(kit.outputOption(['json', 'yaml', 'name']))
    .addHelpText('after', '\nExamples:\n  hansa trust rotate status')
    .action((_options: object, command: Command) => {
      const { output } = optionsOf(command);
      return kit.withClient(command, async (client) => {
        const status = await statusFrom(client);
        const names = status.authorities.map(({ kind, id }) => printable(`${kind}/${id}`));
        const isNames = output.format === 'name';
        kit.print(
          kit.renderValue(status, output) ?? (isNames ? names.join('\n') : tableOf(status, kit)),
        );
      });
    });
}

/** Options that a step shares with `rotate` are found there, wherever on the line they stand. */
function optionsOf(step: Command): RotateOptions {
  const options = step.optsWithGlobals<RotateOptions>();
  if (options.emergency === true || options.fresh === true || !options.wait) {
    throw usageError(
      `--emergency, --fresh and --no-wait are for the whole rotation, not for ${step.name()}.`,
    );
  }
  if (step.name() !== 'status') refuseNames(options.output);
  return options;
}

function refuseNames({ format }: OutputFormat): void {
  if (format === 'name') throw usageError('-o name is for hansa trust rotate status.');
}

async function statusFrom(client: SiteClient): Promise<RotationStatus> {
  return (await client.request({ path: trustPaths.authorities })).body as RotationStatus;
}

async function post(client: SiteClient, step: string, body: StepRequest): Promise<RotationStatus> {
  const path = pathTo(trustPaths.rotationStep, { step });
  return (await client.request({ method: 'POST', path, body })).body as RotationStatus;
}

const headings = ['KIND', 'AUTHORITY', 'PHASE', 'SINCE', 'EXPIRES', 'GOES'];

function tableOf(status: RotationStatus, kit: CommandKit): string {
  const nowMs = kit.io.clock.now();
  const rows = status.authorities.map((one) =>
    [
      one.kind,
      one.id.slice(0, 16),
      one.state,
      `${span(nowMs - Date.parse(one.since))} ago`,
      `in ${span(Date.parse(one.notAfter) - nowMs)}`,
      one.goesAt === undefined ? '' : `in ${span(Date.parse(one.goesAt) - nowMs)}`,
    ].map((cell) => printable(cell)),
  );
  return [
    renderColumns([headings, ...rows]),
    '',
    ...status.rotation.map((kind) => printable(`${kind.kind}: ${waitingFor(kind)}`)),
    ...(status.unconfirmed.length === 0
      ? []
      : [
          printable(
            `Bundle ${status.bundle.sequence} is not yet confirmed by ${status.unconfirmed.join(', ')}.`,
          ),
        ]),
  ].join('\n');
}

function waitingFor(kind: KindStatus | undefined): string {
  if (kind === undefined) return 'nothing is known of it.';
  const until = kind.until === undefined ? '' : ` until ${kind.until}`;
  const words = {
    life: `nothing is due${until}${nextSteps(kind)}.`,
    spread: `waits for the bundle to spread${until}.`,
    clock: `the clock has jumped: waits${until} in case it is set right.`,
    receipts: `waits for the receipts of ${kind.peers.join(', ')}${until} at most.`,
    prune: 'old ones are about to go.',
    prepare: 'the next one is about to be prepared.',
    activate: 'the next one is about to sign.',
  }[kind.waitsFor];
  const without =
    kind.wentOnWithout.length === 0
      ? ''
      : ` The last rotation went on without ${kind.wentOnWithout.join(', ')}.`;
  return `${words}${without}${kind.problem === undefined ? '' : ` The last step failed: ${kind.problem}`}`;
}

function nextSteps({ next = [] }: KindStatus): string {
  const steps = next.map(({ act, id = '' }) => {
    if (act === 'prepare') return 'the next one is prepared';
    return `${id.slice(0, 16)} ${act === 'prune' ? 'goes out of the bundle' : 'takes over'}`;
  });
  return steps.length === 0 ? '' : `; then ${steps.join(', and ')}`;
}

function activeOf(status: RotationStatus, kind: AuthorityKind): AuthorityStatus | undefined {
  return status.authorities.find((one) => one.kind === kind && one.state === 'active');
}

function kindOf(status: RotationStatus, kind: AuthorityKind): KindStatus | undefined {
  return status.rotation.find((one) => one.kind === kind);
}

function span(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 120) return `${seconds}s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)}m`;
  return seconds < 172_800 ? `${Math.round(seconds / 3600)}h` : `${Math.round(seconds / 86_400)}d`;
}
