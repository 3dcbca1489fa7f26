// Finds out how a site is installed in a cluster: with which account, with or without admission policies, and
// which users of other sites the policies must keep.

import type { Cluster } from '../../api/kinds/cluster.ts';
import { HansaError } from '../../core/errors/error.ts';
import type { KubeClient } from '../../core/kube/kube-client.ts';
import { kubePath } from '../../core/kube/kube-path.ts';
import {
  defaultAccountName,
  type Manifest,
  ownerOf,
  siteUser,
} from '../../core/kube/manifests/manifest.ts';
import {
  type Account,
  accountPath,
  accountsOf,
} from '../../core/kube/registration/account-token.ts';
import { fencingPolicyName, principalsIn } from '../manifests/fencing-policies.ts';
import type { PolicyKind } from '../policies/policy-kinds.ts';
import type { LeagueOptions } from '../manifests/league-manifests.ts';
import { hasOwnLabels, type LabelledObject, orMissing } from './cluster-facts.ts';

export interface InstallationQuestion {
  readonly kube: KubeClient;
  readonly name: string;
  readonly known: Cluster | undefined;
  readonly trustDomain: string;
  /** The system namespace. */
  readonly namespace: string;
  /** The kinds of policies that the site federates. */
  readonly policyKinds: readonly PolicyKind[];
  /** In the home cluster: the Secrets that Federation names. */
  readonly secrets: readonly string[] | undefined;
  /** The user name of the site there, where the operator names it. */
  readonly user?: string | undefined;
}

export interface Installation {
  readonly league: LeagueOptions;
  /** Undefined where the site authenticates with its own JWT-SVID. */
  readonly account: Account | undefined;
  /** False for what must stay as the user made it. */
  readonly isWanted: (manifest: Manifest) => boolean;
  readonly warnings: readonly string[];
}

export async function prepareInstallation(question: InstallationQuestion): Promise<Installation> {
  const { kube, known, trustDomain, namespace, secrets } = question;
  const user = question.user ?? userOf(question, credentialSource(known));
  const account = user === undefined ? await accountFor(question) : undefined;
  const policies = await servesPolicies(kube);
  const policy = policies && (await orMissing(() => kube.get(policyPath)));
  const hasNamespace = await isForeignNamespace(kube, namespace);
  return {
    account,
    league: {
      trustDomain,
      namespace,
      subject:
        user === undefined ? { kind: 'ServiceAccount', ...account } : { kind: 'User', name: user },
      principals: principalsIn(policy),
      policies,
      policyKinds: question.policyKinds,
      ...(secrets === undefined ? {} : { home: { secrets } }),
    },
    // With our label on it, `leave` would take it for ours.
    isWanted: ({ kind }) => !(hasNamespace && kind === 'Namespace'),
    warnings: policies
      ? []
      : [
          'this API server has no admission policies (Kubernetes 1.30 has them): only resource versions and the checks of the site keep an old leader from writing.',
        ],
  };
}

export type SiteSubject =
  | ({ readonly kind: 'ServiceAccount' } & Account)
  | { readonly kind: 'User'; readonly name: string };

/** What the site authenticates as in a cluster that is registered already. */
export async function siteSubject(
  question: Pick<InstallationQuestion, 'kube' | 'name' | 'known' | 'trustDomain' | 'user'>,
): Promise<SiteSubject> {
  const { kube, name, known, trustDomain, user } = question;
  if (user !== undefined) return { kind: 'User', name: user };
  const source = credentialSource(known);
  if (source === 'jwtSVID') return { kind: 'User', name: siteUser(trustDomain) };
  const [own] = source === undefined ? await accountsOf(kube, trustDomain) : [];
  if (own !== undefined) return { kind: 'ServiceAccount', ...own };
  throw new HansaError(
    'HANSA_NOT_FOUND',
    `Cannot find out as which user this site calls the API server of ${name}: there is no ServiceAccount with the label hansa.dev/trust-domain=${trustDomain}. Name the user with --user, such as system:serviceaccount:NAMESPACE:NAME.`,
  );
}

const admission = '/apis/admissionregistration.k8s.io/v1';
const policyPath = `${admission}/validatingadmissionpolicies/${fencingPolicyName}`;

function credentialSource(known: Cluster | undefined): string | undefined {
  return Object.entries(known?.spec.credential ?? {}).find(
    ([field, value]) => field !== 'renew' && value !== false,
  )?.[0];
}

/** Undefined where the site uses a ServiceAccount. */
function userOf(question: InstallationQuestion, source: string | undefined): string | undefined {
  if (source === undefined) return undefined;
  if (source === 'jwtSVID') return siteUser(question.trustDomain);
  throw otherCredential(question, source);
}

function otherCredential({ name }: InstallationQuestion, source: string): HansaError {
  return new HansaError(
    'HANSA_CONFLICT',
    `Cannot choose a ServiceAccount in ${name}: its Cluster takes the credential from ${source}, so this command does not know its user. Apply the rights yourself: hansa cluster manifests ${name} --user USER | kubectl apply --server-side -f -. Or remove spec.credential.${source}, and run the command again.`,
  );
}

/** One that `hansa cluster add` created is used again: the site has one credential for a cluster. */
async function accountFor({
  kube,
  trustDomain,
  namespace,
}: InstallationQuestion): Promise<Account> {
  const [own] = await accountsOf(kube, trustDomain);
  if (own !== undefined) return own;
  const usual: Account = { namespace, name: defaultAccountName };
  const owner = ownerOf(await orMissing(() => kube.get(accountPath(usual))));
  if (owner === undefined || owner === trustDomain) return usual;
  // `_` is legal in trust domains only.
  return { namespace, name: `${defaultAccountName}-${trustDomain.replaceAll('_', '-')}` };
}

/** They are general since Kubernetes 1.30. */
export async function servesPolicies(kube: KubeClient): Promise<boolean> {
  const { status, body } = await kube.request({ method: 'GET', path: admission });
  return status === 200 && body.includes('"validatingadmissionpolicies"');
}

async function isForeignNamespace(kube: KubeClient, namespace: string): Promise<boolean> {
  const found = await orMissing(() =>
    kube.get<LabelledObject>(kubePath`/api/v1/namespaces/${namespace}`),
  );
  return found !== undefined && !hasOwnLabels(found);
}
