// What KWOK needs to play the nodes and pods of a test cluster: its configuration, and the objects.

/** A pod with this annotation has its value as address. KWOK chooses the others. */
const addressAnnotation = 'hansa.test/address';

/** Annotations of the nodes that KWOK plays. */
export const playedByKwok = { 'kwok.x-k8s.io/node': 'fake' } as const;

const readyCondition = (type: string): string =>
  `- {type: ${type}, status: "True", lastTransitionTime: {{ Now | Quote }}}`;

const stage = (name: string, kind: string, matchExpressions: object[], next: object): object => ({
  apiVersion: 'kwok.x-k8s.io/v1alpha1',
  kind: 'Stage',
  metadata: { name },
  spec: { resourceRef: { apiGroup: 'v1', kind }, selector: { matchExpressions }, next },
});

/** Nodes become ready and keep their addresses. Pods run at once, and are gone as soon as they are deleted. */
export const kwokConfiguration: string = [
  stage(
    'node-ready',
    'Node',
    [
      {
        key: '.status.conditions.[] | select( .type == "Ready" ) | .status',
        operator: 'NotIn',
        values: ['True'],
      },
    ],
    { statusTemplate: `conditions:\n${readyCondition('Ready')}\n` },
  ),
  stage(
    'pod-running',
    'Pod',
    [
      { key: '.metadata.deletionTimestamp', operator: 'DoesNotExist' },
      { key: '.status.phase', operator: 'In', values: ['Pending'] },
    ],
    {
      statusTemplate: `
{{ $address := index (or .metadata.annotations dict) "${addressAnnotation}" }}
{{ if not $address }}
{{ $address = PodIPWith .spec.nodeName false (or .metadata.uid "") .metadata.name .metadata.namespace }}
{{ end }}
phase: Running
startTime: {{ Now | Quote }}
podIP: {{ $address | Quote }}
podIPs: [{ip: {{ $address | Quote }}}]
conditions:
${['Initialized', 'ContainersReady', 'Ready'].map(readyCondition).join('\n')}
`,
    },
  ),
  stage('pod-gone', 'Pod', [{ key: '.metadata.deletionTimestamp', operator: 'Exists' }], {
    finalizers: { empty: true },
    delete: true,
  }),
]
  .map((each) => JSON.stringify(each))
  .join('\n---\n');

export interface PodSpecification {
  readonly namespace: string;
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly node: string;
  /** Default: KWOK chooses one, which leads nowhere. */
  readonly address?: string;
}

export const podOf = ({ namespace, name, labels, node, address }: PodSpecification): object => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: {
    namespace,
    name,
    labels,
    ...(address !== undefined && { annotations: { [addressAnnotation]: address } }),
  },
  spec: { nodeName: node, containers: [{ name: 'main', image: 'example.test/none' }] },
});
