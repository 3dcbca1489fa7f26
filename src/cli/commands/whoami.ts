// `hansa whoami`: shows how the site identifies the caller, and which roles the caller has.

import { X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { Command } from 'commander';
import { humanDuration } from '../../api/values/duration.ts';
import { hasCode } from '../../core/errors/error.ts';
import { type AccessGrant, listGrants, listTokens } from './access.ts';
import { type Cli, globalOptions } from '../cli.ts';
import { type Connection, resolveConnection } from '../site/connection.ts';
import { outputOption, renderValue } from '../output/output.ts';
import type { SiteClient } from '../../core/plane/site-client.ts';
import type { OutputFormat } from '../../core/plane/command-kit.ts';
import { printable, renderColumns } from '../../core/command/columns.ts';

interface Identity {
  readonly user: string;
  readonly groups: readonly string[];
  /** Undefined where the caller may not read RoleBindings. */
  readonly roles?: readonly string[];
  /** socket, token or certificate. */
  readonly via: string;
  /** The name of the token, or the serial number of the certificate. */
  readonly credential?: string;
  /** Undefined if the credential does not expire, or the caller may not read its expiry time. */
  readonly expiresAt?: string;
  readonly site: string;
  readonly context?: string;
}

export function whoamiCommand(cli: Cli): Command {
  return new Command('whoami')
    .description('show your user, groups and roles at the site, and when your credential expires')
    .addOption(outputOption(['json', 'yaml', 'name']))
    .addHelpText(
      'after',
      '\nThe roles are shown if you may read RoleBindings.\n\nExamples:\n  hansa whoami\n  hansa whoami --context alice@lubeck.example -o json',
    )
    .action((options: { readonly output: OutputFormat }, command: Command) => {
      const connection = resolveConnection(globalOptions(command), cli.io);
      return cli.withConnection(connection, async (client) => {
        const identity = await identify(cli, client, connection);
        const isName = options.output.format === 'name';
        cli.print(
          renderValue(identity, options.output) ??
            (isName ? printable(identity.user) : identityText(identity, cli.io.clock.now())),
        );
      });
    });
}

async function identify(cli: Cli, client: SiteClient, connection: Connection): Promise<Identity> {
  const apiVersion = 'authentication.k8s.io/v1';
  const { body } = await client.request({
    method: 'POST',
    path: `/apis/${apiVersion}/selfsubjectreviews`,
    body: { apiVersion, kind: 'SelfSubjectReview' },
  });
  const { username, groups, extra } = (body as Review).status.userInfo;
  const [via = 'unknown'] = extra['hansa.dev/via'] ?? [];
  const [credential] = extra['hansa.dev/credential'] ?? [];
  const roles = await allowed(listGrants(cli, client));
  const expiresAt =
    via === 'token' ? await tokenExpiry(client, credential) : certificateExpiry(connection);
  return {
    user: username,
    groups,
    ...(roles && { roles: rolesOf({ username, groups }, roles) }),
    via,
    ...(credential === undefined ? {} : { credential }),
    ...(expiresAt === undefined ? {} : { expiresAt }),
    site: client.target,
    ...(connection.context === undefined ? {} : { context: connection.context }),
  };
}

interface Review {
  readonly status: {
    readonly userInfo: {
      readonly username: string;
      readonly groups: readonly string[];
      readonly extra: Readonly<Record<string, readonly string[] | undefined>>;
    };
  };
}

/** Undefined if the caller has no right to read it. */
async function allowed<T>(reading: Promise<T>): Promise<T | undefined> {
  try {
    return await reading;
  } catch (error) {
    if (hasCode(error, 'HANSA_FORBIDDEN')) return undefined;
    throw error;
  }
}

function rolesOf(
  { username, groups }: { readonly username: string; readonly groups: readonly string[] },
  grants: readonly AccessGrant[],
): string[] {
  const bound = grants.filter(({ subject: { kind, name } }) => {
    if (kind === 'Group') return groups.includes(name);
    return username === (kind === 'Token' ? `token:${name}` : name);
  });
  return [...new Set(bound.map(({ role }) => role))].toSorted();
}

async function tokenExpiry(
  client: SiteClient,
  name: string | undefined,
): Promise<string | undefined> {
  const tokens = await allowed(listTokens(client));
  return tokens?.find((token) => token.name === name)?.expiresAt;
}

function certificateExpiry(connection: Connection): string | undefined {
  if (connection.via === 'socket' || connection.clientCertificate === undefined) return undefined;
  return new X509Certificate(readFileSync(connection.clientCertificate)).validToDate.toISOString();
}

function identityText(identity: Identity, nowMs: number): string {
  const { user, groups, roles, via, credential = '', expiresAt, site, context } = identity;
  const until =
    expiresAt === undefined
      ? ''
      : `until ${expiresAt} (${humanDuration(Date.parse(expiresAt) - nowMs)} left)`;
  const how = via === 'socket' ? 'admin socket' : `${via} ${credential}`.trim();
  const rows = [
    ['user', user],
    ['groups', groups.join(', ')],
    ...(roles === undefined ? [] : [['roles', roles.length === 0 ? 'none' : roles.join(', ')]]),
    ['by', how],
    ...(until === '' ? [] : [['valid', until]]),
    ['site', site],
    ...(context === undefined ? [] : [['context', context]]),
  ];
  return renderColumns(rows.map((row) => row.map((cell) => printable(cell))));
}
