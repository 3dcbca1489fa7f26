// `hansa trust bundle verify` and `bootstrap`: check a bundle before a site trusts it, and replace the
// held bundle of a trust domain, for example after a peer was rebuilt.

import { readFileSync, statSync } from 'node:fs';
import { resolve } from 'node:path';
import { Command, Option } from 'commander';
import { type SPIFFEFederation, spiffeFederationKind } from '../../api/kinds/spiffe-federation.ts';
import { apiVersion, timestamp } from '../../api/object.ts';
import { SpiffeId } from '../../api/values/spiffe-id.ts';
import { TrustDomain } from '../../api/values/trust-domain.ts';
import { HansaError, hasCode } from '../../core/errors/error.ts';
import { refreshAfterSeconds } from '../../api/values/refresh-hint.ts';
import { maxBundleBytes, parseSpiffeBundle } from '../../core/identity/bundle/spiffe-bundle.ts';
import { fingerprintOf, keyDigests } from '../../core/identity/bundle/fingerprint.ts';
import { acceptBundle } from '../federation/accept-bundle.ts';
import { Bundle } from '../../core/identity/bundle/bundle.ts';
import { fileProblem } from '../../core/command/file-problem.ts';
import { askRefresh, refreshedLine, refuseFailure } from './trust-refresh.ts';
import { usageError } from '../../core/command/usage-error.ts';
import type { CommandKit, Io, OutputFormat } from '../../core/plane/command-kit.ts';
import { objectPath, type SiteClient } from '../../core/plane/site-client.ts';
import { printable } from '../../core/command/columns.ts';

export function verifyCommand(kit: CommandKit): Command {
  return new Command('verify')
    .description('check a bundle without trusting it')
    .argument('<file>', 'a SPIFFE bundle, or - for standard input')
    .addOption(
      new Option(
        '--trust-domain <name>',
        'the expected trust domain (default: as in its authorities)',
      ),
    )
    .addOption(kit.outputOption(['json', 'yaml']))
    .addHelpText(
      'after',
      `
The command needs no running site. It shows which authorities a site would trust, and which keys the
site would skip and why. It fails with HANSA_BUNDLE_INVALID if the bundle is unreadable, empty, expired, or of another trust
domain.

Examples:
  hansa trust bundle verify bruges.json --trust-domain bruges.example
  spire-server bundle show -format spiffe | hansa trust bundle verify -`,
    )
    .action(async (file: string, options: VerifyOptions) => {
      const document = await readDocument(file, kit.io);
      const judged = judge(document, options.trustDomain, kit.io.clock.now());
      kit.print(kit.renderValue(judged, options.output) ?? judgedText(judged));
    });
}

interface VerifyOptions {
  readonly trustDomain?: string;
  readonly output: OutputFormat;
}

interface Judged {
  readonly trustDomain: string;
  readonly fingerprint: string;
  readonly sequence: number | undefined;
  readonly refreshSeconds: number;
  readonly x509Authorities: readonly {
    readonly fingerprint: string;
    readonly notAfter: string;
    readonly expired: boolean;
  }[];
  readonly jwtAuthorities: readonly string[];
  readonly leftOut: readonly { readonly key: number; readonly why: string }[];
}

/** Throws HANSA_BUNDLE_INVALID with the violated rule. */
function judge(document: string, name: string | undefined, nowMs: number): Judged {
  const trustDomain = TrustDomain.parse(name ?? namedIn(document));
  const read = acceptBundle({
    document,
    trustDomain,
    // A placeholder: only a site itself can tell whether the bundle contains its keys.
    own: new Bundle(TrustDomain.parse('nobody.invalid'), []),
    heldSequence: undefined,
    nowMs,
  });
  const { bundle, sequence, refreshHintSeconds, skipped } = read;
  return {
    trustDomain: trustDomain.name,
    fingerprint: fingerprintOf(keyDigests(bundle)),
    sequence,
    refreshSeconds: refreshAfterSeconds(refreshHintSeconds),
    x509Authorities: bundle.authorities.map(({ fingerprint, notAfterMs }) => ({
      fingerprint,
      notAfter: timestamp(notAfterMs),
      expired: notAfterMs < nowMs,
    })),
    jwtAuthorities: [...bundle.jwtAuthorities.keys()],
    leftOut: skipped.map(({ index, why }) => ({ key: index, why })),
  };
}

/** A bundle does not name its trust domain (SPIFFE Federation §5.1), but its authorities often do. */
function namedIn(document: string): string {
  const anybody = TrustDomain.parse('bundle.invalid');
  const { authorities } = parseSpiffeBundle(document, anybody).bundle;
  for (const { extensions } of authorities) {
    const name = /^spiffe:\/\/([^/]+)/.exec(extensions.subjectAlternativeName?.uris[0] ?? '')?.[1];
    if (name !== undefined) return name;
  }
  throw usageError('The bundle does not name its trust domain: add --trust-domain.');
}

function judgedText(judged: Judged): string {
  const { trustDomain, sequence, refreshSeconds, x509Authorities, jwtAuthorities, leftOut } =
    judged;
  const counts = `${x509Authorities.length} X.509 and ${jwtAuthorities.length} JWT authorities`;
  const lines = [
    `A bundle of ${trustDomain}: ${counts}, ${sequence === undefined ? 'no sequence' : `sequence ${sequence}`}, refresh every ${refreshSeconds} s.`,
    `fingerprint ${judged.fingerprint}`,
    ...x509Authorities.map(
      ({ fingerprint, notAfter, expired }) =>
        `x509 ${fingerprint} ${expired ? 'EXPIRED' : 'until'} ${notAfter}`,
    ),
    ...jwtAuthorities.map((keyId) => `jwt  ${keyId}`),
    ...leftOut.map(({ key, why }) => `skipped: key ${key}, because ${why}`),
  ];
  return lines.map((line) => printable(line)).join('\n');
}

export function bootstrapCommand(kit: CommandKit): Command {
  return new Command('bootstrap')
    .description('replace the held bundle of a trust domain, for example after a peer was rebuilt')
    .argument('<trust-domain>', 'the trust domain of the bundle')
    .argument('[file]', 'a SPIFFE bundle, or - for standard input')
    .addOption(
      new Option(
        '--fingerprint <fingerprint>',
        'fetch the bundle from the endpoint, and accept it if it has this fingerprint',
      ),
    )
    .addOption(
      new Option('--url <url>', 'the bundle endpoint, if there is no SPIFFEFederation yet'),
    )
    .addOption(
      new Option(
        '--endpoint-id <spiffe-id>',
        'the SPIFFE ID of the endpoint (default: spiffe://TRUST-DOMAIN/hansa/site)',
      ),
    )
    .addOption(kit.outputOption(['json', 'yaml']))
    .addHelpText(
      'after',
      `
The site discards the held bundle and accepts a lower sequence. The other site prints its fingerprint
with \`hansa trust bundle fingerprint\`. Compare the two over a trusted channel, such as by phone.

Examples:
  hansa trust bundle bootstrap bruges.example bruges.json
  hansa trust bundle bootstrap bruges.example --fingerprint 7f:3a:…:c1
  hansa trust bundle bootstrap spire.example spire.json --url https://spire.example:8443/ --endpoint-id spiffe://spire.example/spire/server`,
    )
    .action((name: string, file: string | undefined, options: BootstrapOptions, command: Command) =>
      kit.withClient(command, (client) => bootstrap(kit, client, command, name, file, options)),
    );
}

interface BootstrapOptions {
  readonly fingerprint?: string;
  readonly url?: string;
  readonly endpointId?: string;
  readonly output: OutputFormat;
}

async function bootstrap(
  kit: CommandKit,
  client: SiteClient,
  command: Command,
  name: string,
  file: string | undefined,
  options: BootstrapOptions,
): Promise<void> {
  const trustDomain = TrustDomain.parse(name);
  if ((file === undefined) === (options.fingerprint === undefined)) {
    throw usageError('Set either a file or --fingerprint.');
  }
  const endpoint = await endpointOf(client, trustDomain, options);
  const document =
    file === undefined
      ? await fetchPinned(kit, trustDomain, endpoint, options.fingerprint ?? '')
      : await readDocument(file, kit.io);
  const { bundle } = parseSpiffeBundle(document, trustDomain, 'x509');
  const fingerprint = fingerprintOf(keyDigests(bundle));
  if (file !== undefined) {
    await kit.confirm(command, `${trustDomain.name} has the fingerprint ${fingerprint}. Trust it?`);
  }
  if (endpoint.isNew) {
    const { url: bundleEndpointURL, id } = endpoint;
    await client.create(spiffeFederationKind, {
      apiVersion,
      kind: spiffeFederationKind.kind,
      metadata: { name: trustDomain.name },
      spec: {
        bundleSource: {
          httpsSpiffe: {
            bundleEndpointURL,
            endpointSpiffeID: id.toString(),
            bundleBootstrap: document,
          },
        },
      },
    });
  } else {
    await client.request({
      method: 'PATCH',
      path: objectPath(spiffeFederationKind, trustDomain.name),
      contentType: 'application/merge-patch+json',
      body: { spec: { bundleSource: { httpsSpiffe: { bundleBootstrap: document } } } },
    });
  }
  const answer = await askRefresh(client, trustDomain.name, { rebootstrap: true, waitSeconds: 20 });
  refuseFailure(answer);
  kit.print(kit.renderValue(answer, options.output) ?? printable(refreshedLine(answer)));
}

interface Endpoint {
  readonly isNew: boolean;
  readonly url: string;
  readonly id: SpiffeId;
}

async function endpointOf(
  client: SiteClient,
  trustDomain: TrustDomain,
  { url, endpointId }: BootstrapOptions,
): Promise<Endpoint> {
  let federation: SPIFFEFederation | undefined;
  try {
    federation = (await client.get(spiffeFederationKind, trustDomain.name)) as SPIFFEFederation;
  } catch (error) {
    if (!hasCode(error, 'HANSA_NOT_FOUND')) throw error;
  }
  if (federation === undefined) {
    if (url === undefined) {
      throw usageError(
        `This site has no SPIFFEFederation ${trustDomain.name}: add --url to create one.`,
      );
    }
    const id = SpiffeId.parse(endpointId ?? `${trustDomain.id}/hansa/site`);
    return { isNew: true, url, id };
  }
  if (url !== undefined || endpointId !== undefined) {
    throw usageError(
      `The SPIFFEFederation ${trustDomain.name} exists: remove --url and --endpoint-id, or change its endpoint with hansa apply.`,
    );
  }
  const source = federation.spec.bundleSource.httpsSpiffe;
  if (source?.endpointSpiffeID === undefined) {
    throw usageError(
      `The SPIFFEFederation ${trustDomain.name} does not use httpsSpiffe, so it needs no bootstrap bundle.`,
    );
  }
  const id = SpiffeId.parse(source.endpointSpiffeID);
  return { isNew: false, url: source.bundleEndpointURL, id };
}

/** Verifies the bundle by its fingerprint, and then the endpoint against the bundle. */
async function fetchPinned(
  { io }: CommandKit,
  trustDomain: TrustDomain,
  { url, id }: Endpoint,
  expected: string,
): Promise<string> {
  // Imported here, so that other commands do not load TLS.
  const { fetchPresented } = await import('../client/presented-bundle.ts');
  const presented = await fetchPresented(io, new URL(url), trustDomain);
  if (presented.fingerprint !== expected.trim().toLowerCase()) {
    throw new HansaError(
      'HANSA_BUNDLE_INVALID',
      `Cannot trust the bundle of ${trustDomain.name}: its fingerprint is ${presented.fingerprint}, expected ${printable(expected)}. Ask its operator.`,
    );
  }
  const found = presented.answeredBy();
  if (!found.equals(id)) {
    throw new HansaError(
      'HANSA_CERTIFICATE_INVALID',
      `The endpoint presented ${found.toString()}, expected ${id.toString()}.`,
    );
  }
  return presented.document;
}

async function readDocument(file: string, io: Io): Promise<string> {
  if (file === '-') {
    const chunks: Buffer[] = [];
    let length = 0;
    for await (const chunk of io.stdin as AsyncIterable<Buffer | string>) {
      const bytes = Buffer.from(chunk);
      length += bytes.length;
      if (length > maxBundleBytes) throw tooLarge('Standard input');
      chunks.push(bytes);
    }
    return Buffer.concat(chunks).toString('utf8');
  }
  const path = resolve(io.cwd, file);
  try {
    if (statSync(path).size > maxBundleBytes) throw tooLarge(file);
    return readFileSync(path, 'utf8');
  } catch (error) {
    if (error instanceof HansaError) throw error;
    throw usageError(`Cannot read ${file}: ${fileProblem(error)}.`);
  }
}

function tooLarge(what: string): HansaError {
  const message = `${what} is too large for a bundle: more than ${maxBundleBytes} bytes.`;
  return new HansaError('HANSA_TOO_LARGE', message);
}
