package main

import (
	"context"
	"fmt"
	"log"
	"strings"

	discovery "k8s.io/api/discovery/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// inform follows the EndpointSlices of a namespace. It prints "synced N" when its cache holds them, and
// "seen" after each object named *-last that it hears of.
func inform(client kubernetes.Interface, namespace string) {
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0,
		informers.WithNamespace(namespace),
		// As the reflector does, and as its authors advise.
		informers.WithTransform(func(object any) (any, error) {
			if slice, ok := object.(meta.Object); ok {
				slice.SetManagedFields(nil)
			}
			return object, nil
		}))
	informer := factory.Discovery().V1().EndpointSlices().Informer()
	if err := informer.AddIndexers(cache.Indexers{"service": func(object any) ([]string, error) {
		return []string{object.(*discovery.EndpointSlice).Labels[discovery.LabelServiceName]}, nil
	}}); err != nil {
		log.Fatal(err)
	}
	heard := func(object any) {
		if slice, ok := object.(*discovery.EndpointSlice); ok && strings.HasSuffix(slice.Name, "-last") {
			fmt.Println("seen")
		}
	}
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    heard,
		UpdateFunc: func(_, object any) { heard(object) },
	}); err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		log.Fatal("not synced")
	}
	fmt.Println("synced", len(informer.GetStore().ListKeys()))
}
