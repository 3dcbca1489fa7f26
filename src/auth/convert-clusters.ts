// Converts the configuration of kube-federated-auth (`clusters:` and `renewal:`) to Clusters, one for each
// entry. It rejects unknown fields by name.

import { posix } from 'node:path';
import { apiVersion, type JsonObject } from '../api/object.ts';
import { parseDurationFlag } from '../core/command/duration-flag.ts';
import { HansaError } from '../core/errors/error.ts';
import type { ConvertedManifest, ManifestConverter, Refuse } from '../core/plane/command-line.ts';
import { ManifestReader } from '../core/plane/manifest-reader.ts';
import type { SiteClient } from '../core/plane/site-client.ts';
import { authInfo } from './client/auth-info.ts';

/** That configuration calls the local cluster so. Its host name has no cluster name. */
const localName = 'local';

/** Undefined if the value is not such a configuration. */
export const convertClusters: ManifestConverter = (value, refuse) => {
  const { apiVersion: version, kind, clusters: entries } = value;
  if (version !== undefined || kind !== undefined || entries === undefined) return undefined;
  const read = new ManifestReader(value, '', refuse);
  const clusters = read.object('clusters');
  const renewal = read.has('renewal') ? read.object('renewal') : undefined;
  read.end();
  const renew = renewal && renewOf(renewal, refuse);
  if (clusters.fields.length === 0) return refuse('clusters has no entry.');
  return clusters.fields.map((name) => convertOne(name, clusters.object(name), renew));
};

function convertOne(
  name: string,
  entry: ManifestReader,
  renew: JsonObject | undefined,
): ConvertedManifest {
  const optional = (field: string): string | undefined =>
    entry.has(field) ? entry.text(field) : undefined;
  const issuer = entry.text('issuer');
  const apiServer = optional('api_server');
  const caFile = optional('ca_cert');
  const tokenFile = optional('token_path');
  entry.end();
  const objectWith = (files: Files): JsonObject => ({
    apiVersion,
    kind: 'Cluster',
    metadata: { name },
    spec: {
      issuer,
      ...(apiServer === undefined ? {} : { apiServer }),
      ...(files.caFile === undefined ? {} : { caFile: files.caFile }),
      ...(name === localName ? { local: true } : {}),
      ...(files.tokenFile === undefined
        ? {}
        : {
            credential: {
              tokenFile: files.tokenFile,
              ...(renew === undefined ? {} : { renew }),
            },
          }),
    },
  });
  const object = objectWith({ caFile, tokenFile });
  if (![caFile, tokenFile].some((path) => path?.startsWith('/') === true)) return { object };
  return {
    object,
    complete: async (client) => {
      const folder = await credentialsFolder(client, caFile ?? tokenFile ?? '');
      return objectWith({
        caFile: caFile && belowFolder('ca_cert', caFile, folder),
        tokenFile: tokenFile && belowFolder('token_path', tokenFile, folder),
      });
    },
  };
}

interface Files {
  readonly caFile: string | undefined;
  readonly tokenFile: string | undefined;
}

async function credentialsFolder(client: SiteClient, path: string): Promise<string> {
  const { credentialsDir } = await authInfo(client);
  if (credentialsDir !== undefined) return credentialsDir;
  throw new HansaError(
    'HANSA_BAD_REQUEST',
    `the site reads no files of clusters, because auth.credentialsDir is not set. Set it to the folder of these files, such as ${posix.dirname(posix.dirname(path))}, and restart the site.`,
  );
}

/** A Cluster names files relative to auth.credentialsDir. */
function belowFolder(field: string, path: string, folder: string): string {
  if (!path.startsWith('/')) return path;
  const relative = posix.relative(folder, posix.normalize(path));
  if (relative !== '' && relative !== '..' && !relative.startsWith('../')) return relative;
  throw new HansaError(
    'HANSA_BAD_REQUEST',
    `${field} is ${path}, but the site only reads files below ${folder} (auth.credentialsDir). Copy the file there, or change auth.credentialsDir and restart the site.`,
  );
}

/** The fields of `renewal`, and those of `spec.credential.renew`. */
const renewalFields = [
  ['interval', 'intervalSeconds'],
  ['token_duration', 'durationSeconds'],
  ['renew_before', 'renewBeforeSeconds'],
] as const;

function renewOf(renewal: ManifestReader, refuse: Refuse): JsonObject {
  const renew = Object.fromEntries(
    renewalFields.flatMap(([theirs, ours]) =>
      renewal.has(theirs)
        ? [[ours, secondsOf(`renewal.${theirs}`, renewal.text(theirs), refuse)]]
        : [],
    ),
  );
  renewal.end();
  return renew;
}

function secondsOf(field: string, text: string, refuse: Refuse): number {
  let ms: number;
  try {
    ms = parseDurationFlag(text);
  } catch {
    return refuse(`${field} is ${JSON.stringify(text)}: write a duration such as 1h or 168h.`);
  }
  if (ms % 1000 !== 0) return refuse(`${field} is ${text}: write whole seconds.`);
  return ms / 1000;
}
