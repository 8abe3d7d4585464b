// An API server of Kubernetes and the etcd that it keeps its objects in, as one program for tests:
//
//	kube-apiserver etcd FOLDER CLIENT-URL PEER-URL
//	kube-apiserver OPTIONS-OF-KUBE-APISERVER...
package main

import (
	"log"
	"net/url"
	"os"

	"go.etcd.io/etcd/server/v3/embed"
	"k8s.io/component-base/cli"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
)

func main() {
	if len(os.Args) == 5 && os.Args[1] == "etcd" {
		runEtcd(os.Args[2], os.Args[3], os.Args[4])
	}
	os.Exit(cli.Run(app.NewAPIServerCommand()))
}

func runEtcd(folder, client, peer string) {
	config := embed.NewConfig()
	config.Dir = folder
	config.ListenClientUrls, config.AdvertiseClientUrls = urls(client), urls(client)
	config.ListenPeerUrls, config.AdvertisePeerUrls = urls(peer), urls(peer)
	config.InitialCluster = config.InitialClusterFromName(config.Name)
	config.UnsafeNoFsync = true
	server, err := embed.StartEtcd(config)
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(<-server.Err())
}

func urls(text string) []url.URL {
	parsed, err := url.Parse(text)
	if err != nil {
		log.Fatal(err)
	}
	return []url.URL{*parsed}
}
