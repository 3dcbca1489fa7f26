// The CRDs of other projects, read from their Go modules: test/tools/crds/go.mod names most of the modules and
// their versions, and go.sum has their checksums. The repository holds no copies.
//
//   const skip = whyNoCrds('mcs');
//   await kube.install(moduleCrds('mcs'));

import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';
import { requiredVersion } from '../tools/build.ts';
import type { CustomResourceDefinition } from './kube-apiserver.ts';

interface CrdSource {
  readonly module: string;
  /** Whose go.mod requires the module: a folder of test/tools. Default: crds. */
  readonly requiredBy?: string;
  /** Files of the module. */
  readonly files: readonly string[];
}

const gatewayKinds = ['gatewayclasses', 'gateways', 'httproutes', 'tlsroutes', 'referencegrants'];

const sources = {
  /** ServiceExport and ServiceImport. */
  mcs: {
    module: 'sigs.k8s.io/mcs-api',
    files: ['serviceexports', 'serviceimports'].map(
      (plural) => `config/crd/multicluster.x-k8s.io_${plural}.yaml`,
    ),
  },
  /** AdminNetworkPolicy and BaselineAdminNetworkPolicy. */
  'network-policy': {
    module: 'sigs.k8s.io/network-policy-api',
    files: ['adminnetworkpolicies', 'baselineadminnetworkpolicies'].map(
      (plural) => `config/crd/standard/policy.networking.k8s.io_${plural}.yaml`,
    ),
  },
  /** Gateway, its routes, and what they refer to. */
  gateway: {
    module: 'sigs.k8s.io/gateway-api',
    files: gatewayKinds.map(
      (plural) => `config/crd/standard/gateway.networking.k8s.io_${plural}.yaml`,
    ),
  },
  /** Of the version that Traefik supports. It watches all of these. */
  'gateway-1.4': {
    module: 'sigs.k8s.io/gateway-api',
    requiredBy: 'traefik-crds',
    files: [...gatewayKinds, 'grpcroutes', 'tcproutes', 'backendtlspolicies'].map(
      (plural) => `config/crd/experimental/gateway.networking.k8s.io_${plural}.yaml`,
    ),
  },
  /** OpenShift's Route. */
  route: {
    module: 'github.com/openshift/api',
    files: ['route/v1/zz_generated.crd-manifests/routes.crd.yaml'],
  },
  /** ClusterFederatedTrustDomain and ClusterSPIFFEID of spire-controller-manager, and what else it watches. */
  spire: {
    module: 'github.com/spiffe/spire-controller-manager',
    files: ['clusterfederatedtrustdomains', 'clusterspiffeids', 'clusterstaticentries'].map(
      (plural) => `config/crd/bases/spire.spiffe.io_${plural}.yaml`,
    ),
  },
} as const satisfies Record<string, CrdSource>;

export type CrdSet = keyof typeof sources;

/** Those that one cluster can have together: without other versions of the same CRDs. */
export const crdSets = (Object.keys(sources) as readonly CrdSet[]).filter(
  (set) => !('requiredBy' in sources[set]),
);

type Folder =
  | { readonly path: string; readonly reason?: undefined }
  | { readonly path: undefined; readonly reason: string };

const folders = new Map<CrdSet, Folder>();

/** For node:test's `skip`: why CRDs cannot be read here, or false. */
export function whyNoCrds(...sets: readonly CrdSet[]): string | false {
  for (const set of sets) {
    const { reason } = folderOf(set);
    if (reason !== undefined) return reason;
  }
  return false;
}

/** Throws where the module cannot be had: ask whyNoCrds first. */
export function moduleCrds(set: CrdSet): readonly CustomResourceDefinition[] {
  const folder = moduleFolder(set);
  return sources[set].files.map(
    (file) => parse(readFileSync(join(folder, file), 'utf8')) as CustomResourceDefinition,
  );
}

/** The files of the module. Throws as moduleCrds does. */
export function moduleFolder(set: CrdSet): string {
  const { path, reason } = folderOf(set);
  if (path === undefined) throw new Error(reason);
  return path;
}

function folderOf(set: CrdSet): Folder {
  const known = folders.get(set);
  if (known !== undefined) return known;
  const folder = download(sources[set]);
  folders.set(set, folder);
  return folder;
}

/** Finds the module in the cache of Go, or downloads it. Go compares it with go.sum. */
function download({ module, requiredBy = 'crds' }: CrdSource): Folder {
  const cwd = join(import.meta.dirname, '..', 'tools', requiredBy);
  const version = requiredVersion(readFileSync(join(cwd, 'go.mod'), 'utf8'), module);
  const words = ['mod', 'download', '-json', `${module}@${version}`];
  const { error, stdout, stderr } = spawnSync('go', words, { cwd, encoding: 'utf8' });
  if (error !== undefined) {
    return {
      path: undefined,
      reason: `SKIPPED: the CRDs of ${module} need Go, and it is not here`,
    };
  }
  const answer = parse(stdout === '' ? '{}' : stdout) as { Dir?: string; Error?: string };
  if (answer.Dir !== undefined && answer.Error === undefined) return { path: answer.Dir };
  const why = answer.Error ?? stderr.trim();
  return {
    path: undefined,
    reason: `SKIPPED: ${module}@${version} could not be downloaded: ${why}`,
  };
}
