// `hansa cluster review`: asks the site's TokenReview endpoint about one token, and shows what the token
// claims, the verdict and the reason.

import { Command } from 'commander';
import { type Cluster, clusterKind } from '../../api/kinds/cluster.ts';
import type { JsonObject } from '../../api/object.ts';
import { humanDuration } from '../../api/values/duration.ts';
import { printable, renderColumns } from '../../core/command/columns.ts';
import { HansaError, hasCode } from '../../core/errors/error.ts';
import { unverifiedClaims } from '../../core/identity/jwt/unverified-claims.ts';
import type { CommandKit, OutputFormat } from '../../core/plane/command-kit.ts';
import { pathTo } from '../../core/plane/path-to.ts';
import type { SiteClient } from '../../core/plane/site-client.ts';
import { authPaths } from '../paths.ts';
import { tokenHash } from '../review/token-hash.ts';
import { readToken } from './read-secret.ts';
import { reviewHint } from './review-hint.ts';

interface ReviewOptions {
  readonly audience?: readonly string[];
  readonly output: OutputFormat;
}

/** The part of a TokenReview that this command shows. */
interface TokenReview {
  readonly status?: {
    readonly authenticated?: boolean;
    readonly user?: ReviewedUser;
    readonly audiences?: readonly string[];
    readonly error?: string;
  };
}

interface ReviewedUser {
  readonly username?: string;
  readonly uid?: string;
  readonly groups?: readonly string[];
  readonly extra?: Readonly<Record<string, readonly string[]>>;
}

/** Also the output of `-o json`. */
interface Reviewed {
  readonly cluster: string;
  /** Stands for the token in the log and the audit log of the site. */
  readonly tokenHash: string;
  readonly verdict: 'authenticated' | 'denied' | 'unchecked';
  readonly reason?: string;
  readonly user?: ReviewedUser;
  readonly audiences?: readonly string[];
  /** As the token says, true or not. Missing where the token is no JWT. */
  readonly claims?: JsonObject;
}

export function reviewCommand(kit: CommandKit): Command {
  return new Command('review')
    .description('review a ServiceAccount token: show its claims, the verdict and the reason')
    .argument('<name>', 'the name of the cluster')
    .argument('[file]', 'a file with the token; - or nothing for standard input')
    .option(
      '--audience <name...>',
      'audiences that the token must have (default: those of its API server)',
    )
    .addOption(kit.outputOption(['json', 'yaml']))
    .addHelpText(
      'after',
      `
The command sends a TokenReview to the site, as a service does. It accepts no token on the command line,
which every user of the machine can see.

The token hash stands for the token in the log and in the audit log of the site.

The exit code is 0 if the token is authenticated, 11 (HANSA_JWT_INVALID) if it is denied, and 8
(HANSA_UNAVAILABLE) if the site cannot check it.

Examples:
  hansa cluster review app1 < token
  kubectl create token web | hansa cluster review app1
  hansa cluster review app1 token --audience db -o json`,
    )
    .action(
      async (name: string, file: string | undefined, options: ReviewOptions, command: Command) => {
        const token = await readToken(kit.io, file);
        await kit.withClient(command, async (client) => {
          const reviewed = await review(client, name, token, options.audience ?? []);
          const rendered = kit.renderValue(reviewed, options.output);
          if (rendered !== undefined) kit.print(rendered);
          else {
            const rows = rowsOf(reviewed, kit.io.clock.now());
            kit.print(renderColumns(rows.map((row) => row.map((cell) => printable(cell)))));
          }
          if (reviewed.verdict === 'authenticated') return;
          if (reviewed.verdict === 'unchecked')
            throw new HansaError('HANSA_UNAVAILABLE', reviewed.reason ?? '');
          const hint = await hintFor(client, reviewed);
          throw new HansaError(
            'HANSA_JWT_INVALID',
            printable(
              `Cluster ${name} does not authenticate the token${reasonText(reviewed)}${hint === undefined ? '' : `. ${hint}`}`,
            ),
          );
        });
      },
    );
}

/** Kubernetes gives no reason to a token that is for another authenticator. */
function reasonText({ reason }: Reviewed): string {
  return reason === undefined ? '.' : `: ${reason}`;
}

/** A user who may only review gets the hints that need no list of clusters. */
async function hintFor(client: SiteClient, reviewed: Reviewed): Promise<string | undefined> {
  const { cluster, reason, claims } = reviewed;
  if (reason === undefined) return undefined;
  let clusters: readonly Cluster[] = [];
  try {
    clusters = (await client.list(clusterKind)).items as unknown as readonly Cluster[];
  } catch (error) {
    if (!hasCode(error, 'HANSA_FORBIDDEN')) throw error;
  }
  return reviewHint({ cluster, reason, claims, clusters });
}

async function review(
  client: SiteClient,
  cluster: string,
  token: string,
  audiences: readonly string[],
): Promise<Reviewed> {
  const claims = unverifiedClaims(token) as JsonObject | undefined;
  const told = {
    cluster,
    tokenHash: tokenHash(token),
    ...(claims === undefined ? {} : { claims }),
  };
  try {
    const { body } = await client.request({
      method: 'POST',
      path: pathTo(authPaths.review, { name: cluster }),
      body: {
        apiVersion: 'authentication.k8s.io/v1',
        kind: 'TokenReview',
        spec: { token, ...(audiences.length === 0 ? {} : { audiences }) },
      },
    });
    const { authenticated, user, audiences: matched, error } = (body as TokenReview).status ?? {};
    return {
      ...told,
      verdict: authenticated === true ? 'authenticated' : 'denied',
      ...(error === undefined ? {} : { reason: error }),
      ...(user === undefined || authenticated !== true ? {} : { user }),
      ...(matched === undefined ? {} : { audiences: matched }),
    };
  } catch (error) {
    if (!hasCode(error, 'HANSA_UNAVAILABLE')) throw error;
    return { ...told, verdict: 'unchecked', reason: error.message };
  }
}

type Row = readonly [label: string, value: string];

function rowsOf(reviewed: Reviewed, nowMs: number): readonly Row[] {
  const { verdict, tokenHash: hash, reason, user = {}, audiences = [], claims } = reviewed;
  return [
    ...(claims === undefined
      ? [['claims', 'none: this is not a JWT'] as const]
      : claimRows(claims, nowMs)),
    ['token hash', hash],
    ['verdict', verdict],
    ...(reason === undefined ? [] : [['reason', reason] as const]),
    ...(user.username === undefined ? [] : [['user', user.username] as const]),
    ...(user.uid === undefined ? [] : [['uid', user.uid] as const]),
    ...(user.groups ?? []).map((group): Row => ['group', group]),
    ...Object.entries(user.extra ?? {}).map(
      ([key, values]): Row => ['extra', `${key}: ${values.join(', ')}`],
    ),
    ...(audiences.length === 0 ? [] : [['audiences', audiences.join(', ')] as const]),
  ];
}

const times = new Set(['exp', 'iat', 'nbf']);

function claimRows(claims: JsonObject, nowMs: number): readonly Row[] {
  return Object.entries(claims).map(([name, value]): Row => {
    const isTime = times.has(name) && typeof value === 'number' && Math.abs(value) < 8.64e12;
    return [`claim ${name}`, isTime ? timeText(value * 1000, nowMs) : textOf(value)];
  });
}

function timeText(ms: number, nowMs: number): string {
  const distance = humanDuration(Math.abs(ms - nowMs));
  return `${new Date(ms).toISOString().replace('.000', '')} (${ms < nowMs ? `${distance} ago` : `in ${distance}`})`;
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value);
}
