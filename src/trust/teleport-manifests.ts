// Converts Teleport manifests (spiffe_federation v1 and token v2) to SPIFFEFederation and JoinToken. It
// rejects unknown fields by name, because a silently dropped field would seem to take effect. Pure.

import { apiVersion, type JsonObject } from '../api/object.ts';
import type { ManifestConverter, Refuse } from '../core/plane/command-line.ts';
import { ManifestReader } from '../core/plane/manifest-reader.ts';

const versions: ReadonlyMap<string, string> = new Map(
  Object.entries<string>({ spiffe_federation: 'v1', token: 'v2' }),
);

/** Undefined if the value is not a Teleport manifest. */
export const convertTeleport: ManifestConverter = (value, refuse) => {
  const { kind, apiVersion: ours } = value;
  if (ours !== undefined || typeof kind !== 'string') return undefined;
  const version = versions.get(kind);
  if (version === undefined) return undefined;
  const read = new ManifestReader(value, '', refuse);
  if (read.text('version') !== version) {
    return refuse(`the kind ${kind} is supported only in version ${version}.`);
  }
  read.text('kind');
  read.empty('sub_kind');
  const metadata = read.object('metadata');
  const name = metadata.text('name');
  const labels = metadata.take('labels');
  // Fields that `tctl get` adds are ignored, so that its output can be applied unchanged.
  for (const field of ['revision', 'id']) metadata.take(field);
  read.take('status');
  const spec = read.object('spec');
  const converted =
    kind === 'spiffe_federation'
      ? { kind: 'SPIFFEFederation', spec: federationSpec(spec, refuse) }
      : { kind: 'JoinToken', spec: tokenSpec(spec, metadata, refuse) };
  for (const each of [read, metadata, spec]) each.end();
  const object = {
    apiVersion,
    kind: converted.kind,
    metadata: { name, ...(labels === undefined ? {} : { labels }) },
    spec: converted.spec,
  };
  return [{ object }];
};

function federationSpec(spec: ManifestReader, refuse: Refuse): JsonObject {
  const source = spec.object('bundle_source');
  const [profile, ...more] = ['static', 'https_web', 'https_spiffe'].filter((each) =>
    source.has(each),
  );
  if (profile === undefined || more.length > 0) {
    return refuse(
      'spec.bundle_source must have exactly one of static, https_web and https_spiffe.',
    );
  }
  const fields = source.object(profile);
  const bundleSource = sourceOf(profile, fields, refuse);
  fields.end();
  source.end();
  return { bundleSource };
}

function sourceOf(profile: string, fields: ManifestReader, refuse: Refuse): JsonObject {
  if (profile === 'static') return { static: { bundle: fields.text('bundle') } };
  const bundleEndpointURL = fields.text('bundle_endpoint_url');
  if (profile === 'https_web') return { httpsWeb: { bundleEndpointURL } };
  if (!fields.has('endpoint_spiffe_id')) {
    return refuse(
      'spec.bundle_source.https_spiffe.endpoint_spiffe_id is missing: add the SPIFFE ID of the endpoint. For a Hansa site it is spiffe://TRUST-DOMAIN/hansa/site, for SPIRE spiffe://TRUST-DOMAIN/spire/server.',
    );
  }
  return {
    httpsSpiffe: {
      bundleEndpointURL,
      endpointSpiffeID: fields.text('endpoint_spiffe_id'),
      bundleBootstrap: fields.text('bundle_bootstrap'),
    },
  };
}

/** Names of roles on the left as Teleport has them. */
const roles: ReadonlyMap<string, string> = new Map(
  Object.entries<string>({ bot: 'bot', node: 'agent', agent: 'agent' }),
);

function tokenSpec(spec: ManifestReader, metadata: ManifestReader, refuse: Refuse): JsonObject {
  const method = spec.text('join_method');
  if (method !== 'spiffe') {
    return refuse(
      `spec.join_method is ${JSON.stringify(method)}, but only spiffe can be converted. For a token with a secret, use hansa join token create.`,
    );
  }
  const converted = spec.texts('roles').map((role) => {
    const lower = role.toLowerCase();
    return (
      roles.get(lower) ??
      refuse(`spec.roles has ${JSON.stringify(role)}, but only Bot, Node and Agent are supported.`)
    );
  });
  const botName = spec.has('bot_name') ? { botName: spec.text('bot_name') } : {};
  // A token that does not expire has the zero time of Go there.
  const expires = metadata.has('expires') ? metadata.text('expires') : undefined;
  const rules = spec.object('spiffe');
  const allow = rules.objects('allow').map((rule) => {
    const spiffeID = rule.text('spiffe_id');
    rule.end();
    return { spiffeID };
  });
  rules.end();
  return {
    method,
    roles: [...new Set(converted)],
    ...botName,
    ...(expires === undefined || expires.startsWith('0001-') ? {} : { expiresAt: expires }),
    spiffe: { allow },
  };
}
