// `hansa grant create`: creates a grant, or replaces the spec of an existing one.

import { Command, Option } from 'commander';
import { peerDistrust } from '../../api/grants.ts';
import type { Kind } from '../../api/kind.ts';
import { clusterKind } from '../../api/kinds/cluster.ts';
import {
  defaultScopes,
  federationGrantKind,
  grantScopes,
} from '../../api/kinds/federation-grant.ts';
import { type FederationPeer, federationPeerKind } from '../../api/kinds/federation-peer.ts';
import { serviceOfferKind } from '../../api/kinds/service-offer.ts';
import { apiVersion, type JsonObject, type Resource, timestamp } from '../../api/object.ts';
import { parseTimestamp } from '../../api/values/date-time.ts';
import { HansaError, hasCode } from '../../core/errors/error.ts';
import { parseDurationFlag } from '../../core/command/duration-flag.ts';
import { usageError } from '../../core/command/usage-error.ts';
import { fieldManager, objectPath, type SiteClient } from '../../core/plane/site-client.ts';
import type { CommandKit, OutputFormat } from '../../core/plane/command-kit.ts';
import { printable } from '../../core/command/columns.ts';

export interface CreateOptions {
  readonly peer: string;
  readonly offer?: readonly string[];
  readonly cluster?: readonly string[];
  readonly service?: readonly string[];
  readonly identity?: readonly string[];
  readonly anyIdentity?: boolean;
  readonly from?: readonly string[];
  readonly anyAddress?: boolean;
  readonly network?: readonly string[];
  readonly anyNetwork?: boolean;
  readonly scope: readonly string[];
  readonly ttl?: number;
  readonly expiresAt?: string;
}

interface CommandOptions extends CreateOptions {
  readonly forceConflicts?: boolean;
  readonly output: OutputFormat;
}

export function createCommand(kit: CommandKit): Command {
  return new Command('create')
    .description('grant offers, clusters or services of this site to a peer, or change a grant')
    .argument('<name>', 'the name of the grant')
    .requiredOption('--peer <trust-domain>', 'the peer whose workloads get access')
    .option('--offer <name...>', 'the ServiceOffers to grant')
    .option('--cluster <name...>', 'the Clusters to grant to the site of the peer')
    .option('--service <namespace/name...>', 'the federated Services to grant')
    .option('--identity <spiffe-id...>', 'workloads of the peer that get access')
    .option('--any-identity', 'all workloads of the peer get access')
    .option('--from <cidr...>', 'source addresses that may connect')
    .option('--any-address', 'any source address may connect')
    .option('--network <name...>', 'networks over which they may connect')
    .option('--any-network', 'they may connect over any network')
    .addOption(
      new Option('--scope <scope...>', 'what the workloads may do')
        .choices(grantScopes)
        .default(defaultScopes, defaultScopes.join()),
    )
    .addOption(
      new Option('--ttl <duration>', 'how long the grant is valid').argParser(parseDurationFlag),
    )
    .option('--expires-at <time>', 'when the grant expires (RFC 3339)')
    .option('--force-conflicts', 'take over fields that others manage')
    .addOption(kit.outputOption(['json', 'yaml']))
    .addHelpText(
      'after',
      `
All three axes (identity, network, address) must match. An axis that you leave out matches nothing.
Scope read allows GET, HEAD and OPTIONS. Scope write allows all other HTTP methods, and gRPC. A
connection without methods needs at least one scope. No scope includes another.

The flags define the whole grant. To change it, run the command again with all flags: a flag that
you leave out is removed from the grant. Name at least one offer, cluster or service. The peer, the
offers and the clusters must exist. With hansa apply you can create the grant before them.

Clusters are for the site of the peer, so the identity must be spiffe://TRUST-DOMAIN/hansa/site.

Examples:
  hansa grant create bruges-db --peer bruges.example --offer db \\
    --identity spiffe://bruges.example/web --any-network --any-address --ttl 30d
  hansa grant create bruges-db --peer bruges.example --offer db --scope read write \\
    --identity spiffe://bruges.example/web --any-network --from 192.0.2.0/24
  hansa grant create bruges-app1 --peer bruges.example --cluster app1 \\
    --identity spiffe://bruges.example/hansa/site --any-network --any-address`,
    )
    .action((name: string, options: CommandOptions, command: Command) =>
      kit.withClient(command, (client) => create(kit, client, name, options)),
    );
}

async function create(
  kit: CommandKit,
  client: SiteClient,
  name: string,
  options: CommandOptions,
): Promise<void> {
  const manifest = grantManifest(name, options, kit.io.clock.now());
  const peer = await knownPeer(client, options.peer);
  await Promise.all([
    ...(options.offer ?? []).map((offer) => checkTarget(client, serviceOfferKind, offer)),
    ...(options.cluster ?? []).map((cluster) => checkTarget(client, clusterKind, cluster)),
  ]);
  const { before, object } = await write(client, name, manifest, options.forceConflicts === true);
  // Not the resourceVersion: a controller may have updated the status in the meantime.
  const isSame = before?.metadata.generation === object.metadata.generation;
  const missing = emptyAxes(options);
  const isEmpty = missing.length > 0;
  const isNew = before === undefined;
  const what = isNew ? (isEmpty ? 'created' : 'granted') : isSame ? 'unchanged' : 'configured';
  const done = `${printable(name)} ${what}${isEmpty ? ', but it allows nothing' : ''}`;
  kit.print(kit.renderValue(object, options.output) ?? done);
  if (isEmpty) kit.note(`To let it match calls, add ${missing.join(', and ')}.`);
  const distrust = peer && peerDistrust(options.peer, peer);
  if (distrust !== undefined) kit.note(`The grant allows nothing yet: ${printable(distrust)}.`);
}

/** Undefined if the caller may not read peers. Then only the site checks the name. */
async function knownPeer(client: SiteClient, name: string): Promise<FederationPeer | undefined> {
  const peer = await readable(client, federationPeerKind, name, () => {
    throw new HansaError(
      'HANSA_NOT_FOUND',
      `Cannot grant anything to ${name}: it is not a peer of this site. To list the peers: hansa peer list. To invite it: hansa peer invite --for ${name}`,
    );
  });
  return peer as FederationPeer | undefined;
}

async function checkTarget(client: SiteClient, kind: Kind, name: string): Promise<void> {
  await readable(client, kind, name, () => {
    throw new HansaError(
      'HANSA_NOT_FOUND',
      `Cannot grant ${name}: this site has no ${kind.kind} of that name. To list those that it has: hansa get ${kind.plural}`,
    );
  });
}

async function readable(
  client: SiteClient,
  kind: Kind,
  name: string,
  missing: () => undefined = () => undefined,
): Promise<Resource | undefined> {
  try {
    return await client.get(kind, name);
  } catch (error) {
    if (hasCode(error, 'HANSA_NOT_FOUND')) return missing();
    if (hasCode(error, 'HANSA_FORBIDDEN')) return undefined;
    throw error;
  }
}

interface Write {
  readonly before: Resource | undefined;
  readonly object: Resource;
}

/** Retries after a conflict with a status update of a controller, which is rare. */
const mostAttempts = 5;

/**
 * Makes the spec equal to the manifest. Server-side apply removes only list items that its own field
 * manager owns, so a scope that another manager added would stay. A grant with other field managers is
 * therefore replaced with PUT.
 */
async function write(
  client: SiteClient,
  name: string,
  manifest: JsonObject,
  force: boolean,
): Promise<Write> {
  for (let attempt = 1; ; attempt++) {
    const before = await readable(client, federationGrantKind, name);
    const owners = ownersOf(before);
    const isApplied = owners.every(
      ({ manager, operation }) => manager === fieldManager && operation === 'Apply',
    );
    if (before === undefined || (owners.length > 0 && isApplied)) {
      return { before, object: (await client.apply(federationGrantKind, name, manifest)).object };
    }
    const others = new Set(
      owners.map(({ manager }) => manager).filter((one) => one !== fieldManager),
    );
    if (others.size > 0 && !force) {
      throw new HansaError(
        'HANSA_CONFLICT',
        `Cannot change the grant ${name}: ${[...others].join(' and ')} manages some of its fields. To take them over: --force-conflicts.`,
      );
    }
    try {
      const { body } = await client.request({
        method: 'PUT',
        path: objectPath(federationGrantKind, name),
        query: { fieldManager, fieldValidation: 'Strict' },
        body: { ...before, spec: manifest['spec'] },
      });
      return { before, object: body as Resource };
    } catch (error) {
      if (!hasCode(error, 'HANSA_CONFLICT') || attempt === mostAttempts) throw error;
    }
  }
}

/** The field managers of the spec. */
function ownersOf(grant: Resource | undefined) {
  return (grant?.metadata.managedFields ?? []).filter(
    ({ subresource }) => subresource === undefined || subresource === '',
  );
}

/** The flags for each axis that matches nothing. */
function emptyAxes(options: CreateOptions): readonly string[] {
  const axes: (readonly [string, boolean])[] = [
    [
      '--identity or --any-identity',
      options.anyIdentity === true || (options.identity ?? []).length > 0,
    ],
    // This site has no networks yet, so only --any-network matches.
    ['--any-network', options.anyNetwork === true],
    ['--from or --any-address', options.anyAddress === true || (options.from ?? []).length > 0],
  ];
  return axes.filter(([, matches]) => !matches).map(([flags]) => flags);
}

export function grantManifest(name: string, options: CreateOptions, nowMs: number): JsonObject {
  if (options.ttl !== undefined && options.expiresAt !== undefined) {
    throw usageError('Give either --ttl or --expires-at, not both.');
  }
  if (options.expiresAt !== undefined && parseTimestamp(options.expiresAt) === undefined) {
    throw new HansaError(
      'HANSA_USAGE',
      `--expires-at is ${JSON.stringify(options.expiresAt)}: expected a time such as 2027-01-01T00:00:00Z.`,
    );
  }
  const axis = (key: string, list: readonly string[] | undefined, any: boolean | undefined) => ({
    ...(list === undefined ? {} : { [key]: list }),
    unrestricted: any === true,
  });
  const targets = {
    ...(options.offer === undefined ? {} : { offers: options.offer }),
    ...(options.cluster === undefined ? {} : { clusters: options.cluster }),
    ...(options.service === undefined ? {} : { services: options.service }),
  };
  if (Object.keys(targets).length === 0) {
    throw usageError('Name what to grant: --offer, --cluster or --service.');
  }
  const expiresAt = options.ttl === undefined ? options.expiresAt : timestamp(nowMs + options.ttl);
  return {
    apiVersion,
    kind: federationGrantKind.kind,
    metadata: { name },
    spec: {
      peer: options.peer,
      scopes: options.scope,
      ...targets,
      nodeInstances: axis('ids', options.identity, options.anyIdentity),
      networks: axis('ids', options.network, options.anyNetwork),
      sourceCIDRs: axis('cidrs', options.from, options.anyAddress),
      ...(expiresAt === undefined ? {} : { expiresAt }),
    },
  };
}
