// `hansa trust rotate`: replaces an authority of this site, as one operation or step by step.

import { Command, Option } from 'commander';
import { sleep } from '../../core/clock/clock.ts';
import type { AuthorityKind } from '../../core/identity/authority/phases.ts';
import type { AuthorityStatus, KindStatus, RotationStatus } from '../rotation/rotation.ts';
import type { StepRequest } from '../rotation/rotation-routes.ts';
import { stayAlive } from '../../core/command/stay-alive.ts';
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

/** A rotation lasts minutes. The command should report its end soon. */
const pollMs = 500;

export function rotateCommand(kit: CommandKit): Command {
  return new Command('rotate')
    .description('replace the active authority of this site without interrupting calls')
    .addOption(jwtOption())
    .option('--emergency', 'activate the next authority and revoke the active one at once')
    .option('--fresh', 'with --emergency: create a new key, even if an authority is prepared')
    .option('--no-wait', 'exit as soon as the rotation has started')
    .addOption(kit.outputOption(['json', 'yaml', 'name']))
    .addHelpText(
      'after',
      `
A site rotates automatically at half of the lifetime of the active authority. This command starts a
rotation now. The site activates the next authority when the bundle had time to spread and every live
peer has confirmed that it holds the new bundle, or when the deadline for confirmations passes. If you
interrupt the command, the rotation continues.

--emergency is for a key that may be compromised. The site replaces everything that the key signed at
once. It activates the prepared authority, which peers already hold, so peers can still verify this site.
With --fresh it discards the prepared authority too, in case that key is also compromised. Peers then
cannot verify this site until they get its new bundle. The command names these peers.

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
        description: 'create the next authority and publish it in the bundle',
        done: 'The new authority is in the bundle. It does not sign yet.',
        named: false,
        help: 'The site announces the new bundle to its peers, which fetch it, and sends it to its workloads.',
      }),
    )
    .addCommand(
      stepCommand(kit, {
        verb: 'activate',
        description: 'activate the prepared authority now, without waiting for peers',
        done: 'The authority is active. SVIDs of the previous one stay valid until they expire.',
        named: true,
        help: 'The command names the trust domains that may not hold the authority yet: peers that have not\nconfirmed it, and other federations until the bundle was published for ca.spreadSeconds.',
      }),
    )
    .addCommand(
      stepCommand(kit, {
        verb: 'taint',
        description: 'replace everything that an old authority signed, at once',
        done: 'The authority is tainted. The site replaces everything that it signed.',
        named: true,
        help: 'Without an ID, the command taints the previously active authority.',
      }),
    )
    .addCommand(
      stepCommand(kit, {
        verb: 'revoke',
        description:
          'remove an authority from the bundle, so that nothing that it signed is trusted',
        done: 'The authority is no longer in the bundle.',
        named: true,
        help: 'A prepared or tainted authority can be revoked at any time, an old one when everything that it signed\nhas expired. With an upstream authority (ca.upstreamCertFile), the bundle contains its root, and\nSVIDs of a revoked authority stay trusted until they expire.',
        confirms: true,
      }),
    )
    .addCommand(statusCommand(kit));
}

function jwtOption(): Option {
  return new Option('--jwt', 'use the JWT authorities instead of the X.509 authorities');
}

async function rotate(kit: CommandKit, options: RotateOptions, command: Command): Promise<void> {
  const { emergency = false, fresh = false, jwt = false } = options;
  if (fresh && !emergency) throw usageError('--fresh needs --emergency.');
  refuseNames(options.output);
  const kind: AuthorityKind = jwt ? 'jwt' : 'x509';
  await kit.withClient(command, async (client) => {
    const found = await statusFrom(client);
    const replaced = activeOf(found, kind);
    if (emergency) await kit.confirm(command, printable(emergencyQuestion(found, kind, fresh)));
    let status = await post(client, 'rotate', { kind, emergency, fresh });
    const isDone = (): boolean => activeOf(status, kind)?.id !== replaced?.id;
    await stayAlive(async () => {
      let told = '';
      while (!isDone() && options.wait) {
        const waits = waitingFor(kindOf(status, kind), status);
        if (waits !== told) kit.note(printable(waits));
        told = waits;
        await sleep(kit.io.clock, pollMs, kit.io.interruption());
        status = await statusFrom(client);
      }
    });
    const rendered = kit.renderValue(status, options.output);
    if (rendered !== undefined) {
      kit.print(rendered);
      return;
    }
    const active = activeOf(status, kind);
    kit.print(
      printable(
        isDone()
          ? `The authority ${active?.id.slice(0, 16)} is active.`
          : `In progress: ${waitingFor(kindOf(status, kind), status)}`,
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
          `Peers verify this site against the upstream root, and trust everything that the old key signs until ${replaced.notAfter}. To prevent that, replace the upstream authority and rotate again.`,
        ),
      );
    }
  });
}

/** Not a new invitation: that would need a revocation first, which ends all grants. */
function bootstrapAgain(trustDomain: string): string {
  return `Send each of them the fingerprint of this site (hansa trust bundle fingerprint) over a trusted channel. Its operator then runs: hansa trust bundle bootstrap ${trustDomain} --fingerprint … (for a SPIRE: spire-server bundle set, with the output of hansa trust bundle show).`;
}

function emergencyQuestion(status: RotationStatus, kind: AuthorityKind, fresh: boolean): string {
  const { prepared, fresh: all } = status.emergencyLoses;
  const lost = kind === 'jwt' ? [] : fresh ? all : prepared;
  const whom =
    lost.length === 0
      ? ''
      : ` These may not hold the next authority: ${lost.join(', ')}. ${bootstrapAgain(status.trustDomain)}`;
  return `The rotation revokes the active authority and everything that it signed.${whom} Rotate?`;
}

interface Step {
  readonly verb: string;
  readonly description: string;
  readonly done: string;
  /** Whether the step accepts the ID of an authority. */
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
    command.argument('[id]', 'the ID of the authority, or at least its first 8 characters');
  }
  return command.action(async (...parameters: unknown[]) => {
    const id = step.named ? (parameters[0] as string | undefined) : undefined;
    const { jwt, output } = optionsOf(command);
    if (step.confirms === true) {
      await kit.confirm(
        command,
        `Remove ${id ?? 'the previously active authority'} from the bundle?`,
      );
    }
    await kit.withClient(command, async (client) => {
      const kind: AuthorityKind = jwt === true ? 'jwt' : 'x509';
      // Read before the step: afterwards there is no prepared authority.
      const without =
        step.verb === 'activate' && kind === 'x509'
          ? (await statusFrom(client)).emergencyLoses.prepared
          : [];
      const status = await post(client, step.verb, { kind, ...(id === undefined ? {} : { id }) });
      kit.print(kit.renderValue(status, output) ?? [step.done, tableOf(status, kit)].join('\n'));
      if (without.length > 0) {
        kit.note(
          printable(
            `These may not hold it: ${without.join(', ')}. ${bootstrapAgain(status.trustDomain)}`,
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

/** Commander stores options that a step shares with `rotate` at `rotate`, wherever they stand. */
function optionsOf(step: Command): RotateOptions {
  const options = step.optsWithGlobals<RotateOptions>();
  if (options.emergency === true || options.fresh === true || !options.wait) {
    throw usageError(
      `--emergency, --fresh and --no-wait work only with hansa trust rotate, not with ${step.name()}.`,
    );
  }
  if (step.name() !== 'status') refuseNames(options.output);
  return options;
}

function refuseNames({ format }: OutputFormat): void {
  if (format === 'name') throw usageError('-o name works only with hansa trust rotate status.');
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
    ...status.rotation.map((kind) => printable(`${kind.kind}: ${waitingFor(kind, status)}`)),
    ...(status.unconfirmed.length === 0
      ? []
      : [
          printable(
            `Bundle ${status.bundle.sequence} is not yet confirmed by ${status.unconfirmed.join(', ')}.`,
          ),
        ]),
    ...status.rejectedBy.map((peer) => printable(rejection(peer))),
  ].join('\n');
}

function rejection(peer: string): string {
  return `${peer} rejects this site: it suspended or revoked it, has not enrolled it yet, or lacks its bundle. A rotation waits for it only until it is degraded. Ask its operator, or run: hansa doctor --peer ${peer}`;
}

function waitingFor(kind: KindStatus | undefined, { rejectedBy }: RotationStatus): string {
  if (kind === undefined) return 'unknown.';
  const until = kind.until === undefined ? '' : ` until ${kind.until}`;
  const named = (peer: string): string =>
    rejectedBy.includes(peer) ? `${peer} (it rejects this site)` : peer;
  const words = {
    life: `no step is due${until}${nextSteps(kind)}.`,
    spread: `waits for the bundle to spread${until}.`,
    clock: `the clock has jumped: waits${until} for a correction.`,
    receipts: `waits for the receipts of ${kind.peers.map(named).join(', ')}${until} at most.`,
    prune: 'removes old authorities from the bundle now.',
    prepare: 'prepares the next authority now.',
    activate: 'activates the next authority now.',
  }[kind.waitsFor];
  const without =
    kind.wentOnWithout.length === 0
      ? ''
      : ` The last rotation did not wait for ${kind.wentOnWithout.join(', ')}.`;
  return `${words}${without}${kind.problem === undefined ? '' : ` The last step failed: ${kind.problem}`}`;
}

function nextSteps({ next = [] }: KindStatus): string {
  const steps = next.map(({ act, id = '' }) => {
    if (act === 'prepare') return 'the site prepares the next authority';
    return `${id.slice(0, 16)} ${act === 'prune' ? 'leaves the bundle' : 'becomes active'}`;
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
